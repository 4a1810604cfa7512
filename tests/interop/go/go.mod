module gabion/interop

go 1.26
