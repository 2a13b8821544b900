"""What commands decide, apart from talking and printing. See README.md."""
