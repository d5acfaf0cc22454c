"""How many attention heads does this task need? An answer, with evidence."""
