"""What tests raise where an interrupt would be."""


class Fault(BaseException):
    """Raised where an interrupt would be."""
