"""Maps: which D a shape learns, cell by cell, beside what rival laws predict."""
