"""What a user may say about data that could be read in two ways."""

from typing import Literal

TargetType = Literal["auto", "numbers", "labels"]
TokenType = Literal["auto", "numbers", "ids"]
