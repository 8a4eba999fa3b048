"""What operators do, through the admin and the command line: look, explain, and change many jobs at once."""
