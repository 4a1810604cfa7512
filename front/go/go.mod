module gabion/fipstls

go 1.25.0

require golang.org/x/net v0.47.0
