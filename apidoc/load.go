package apidoc

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed */*.json
var files embed.FS

// Load returns the facts about product ("pve", "pbs" or "pdm") at version, one
// of [Versions]. It decodes anew each time, so the caller owns the document.
func Load(product, version string) (*Document, error) {
	data, err := files.ReadFile(path.Join(product, version+".json"))
	if err != nil {
		return nil, fmt.Errorf("apidoc: no facts about %s %s; there are: %s", product, version, strings.Join(known(), ", "))
	}
	d, err := Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", product, version, err)
	}
	return d, nil
}

// Latest loads the newest version of product.
func Latest(product string) (*Document, error) {
	v := Versions(product)
	if len(v) == 0 {
		return nil, fmt.Errorf("apidoc: no facts about %s; there are: %s", product, strings.Join(known(), ", "))
	}
	return Load(product, v[len(v)-1])
}

// Versions lists the versions of product there are facts about, oldest first.
func Versions(product string) []string {
	entries, err := files.ReadDir(product)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if v, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, CompareVersions)
	return out
}

// Products lists the products there are facts about.
func Products() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// CompareVersions orders versions such as "8.4" and "9.10" by their numbers.
func CompareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if i >= len(as) {
			return -1
		}
		if i >= len(bs) {
			return 1
		}
		an, aerr := strconv.Atoi(as[i])
		bn, berr := strconv.Atoi(bs[i])
		c := strings.Compare(as[i], bs[i])
		if aerr == nil && berr == nil {
			c = an - bn
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func known() []string {
	var out []string
	for _, p := range Products() {
		for _, v := range Versions(p) {
			out = append(out, p+" "+v)
		}
	}
	return out
}
