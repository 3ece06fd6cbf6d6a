"""What is weak in data or fit: delay, excitation, bias, residuals."""
