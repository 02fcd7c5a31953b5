"""The one kind of error that is shown to a user as a sentence, without a traceback."""


class UserError(Exception):
    """Something the user can mend. Its message says what is wrong, where, and what to do."""
