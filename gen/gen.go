// Package gen holds what the clients are made from besides the facts in apidoc,
// and what is made on the way: for each product an overlay with names and
// corrected types, and the OpenAPI document.
package gen

import (
	"embed"
	"fmt"
)

//go:generate go run ../internal/generator generate

//go:embed *.overlay.yaml
var overlays embed.FS

// Overlay returns the overlay file of product.
func Overlay(product string) ([]byte, error) {
	data, err := overlays.ReadFile(product + ".overlay.yaml")
	if err != nil {
		return nil, fmt.Errorf("gen: there is no overlay for product %q", product)
	}
	return data, nil
}
