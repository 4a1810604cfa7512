module gabion/malformed

go 1.26
