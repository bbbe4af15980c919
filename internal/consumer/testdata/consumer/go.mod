module example.com/consumer

go 1.26.0

require github.com/proxkit/proxkit v0.0.0

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace github.com/proxkit/proxkit => ../../../..
