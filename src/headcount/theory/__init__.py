"""The theory as software: bounds, assumptions, constructions, collisions, density and rates."""
