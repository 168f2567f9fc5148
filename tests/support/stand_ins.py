"""Small stand-ins for what a measurement is given, and for an interrupt."""

from dataclasses import replace


def quiet(_):
    """Progress that shows nothing."""


class Letters:
    """A tokenizer whose tokens are letters."""

    def decode(self, ids, skip_special=True):
        return "".join(chr(97 + id) for id in ids)


class Meddler:
    """A target with a `wrong` token, from `length` on, once rows are verified together."""

    def __init__(self, inner, wrong, length=0):
        self.inner, self.wrong, self.from_length = inner, wrong, length

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def verify(self, draft, noise):
        verdict = self.inner.verify(draft, noise)
        if draft is None or self.inner.length < self.from_length:
            return verdict
        return replace(verdict, best=[self.wrong] * (draft.size + 1))


class Fault(BaseException):
    """Raised where an interrupt would be."""


class Breaking:
    """Raises at one call of what it wraps, before or after the call; counts until then."""

    def __init__(self, after, at=-1):
        self.after, self.left, self.calls = after, at, 0

    def around(self, original):
        def call(*given, **named):
            self.calls += 1
            self.left -= 1
            if self.left == 0 and not self.after:
                raise Fault
            result = original(*given, **named)
            if self.left == 0 and self.after:
                self.left = -1
                raise Fault
            return result

        return call
