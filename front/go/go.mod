module gabion/fipstls

go 1.25.0

require (
	github.com/ebitengine/purego v0.11.3
	golang.org/x/net v0.47.0
)
