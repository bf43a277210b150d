"""What works on this machine, and for what does not, why and the way out."""
