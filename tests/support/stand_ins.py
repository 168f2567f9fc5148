"""Small stand-ins for what a measurement is given."""


def quiet(_):
    """Progress that shows nothing."""


class Letters:
    """A tokenizer whose tokens are letters."""

    def decode(self, ids, skip_special=True):
        return "".join(chr(97 + id) for id in ids)
