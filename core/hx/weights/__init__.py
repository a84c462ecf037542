"""What weights hold, without holding it: read where they are, as the file is written."""
