"""The public interface for scheduler plugins and actions.

`points` has the extension points that a plugin may implement, `views` and `sessionview` what plugins read, `verdicts`
what they return, and `session` what an action may do.
"""
