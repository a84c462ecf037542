"""What is hooked for the time of a recording, and how everything is put back as it was."""
