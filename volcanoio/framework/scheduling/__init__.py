"""The vocabulary of scheduler plugins and actions.

`views` and `sessionview` say what they see, `points` which extension points a plugin may implement, `verdicts` what it
answers, and `session` what an action may do.
"""
