package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/proxkit/proxkit/apidoc"
)

// An Overlay says about one product what its API description does not, or says
// wrongly: names, types and facts about the server. Every entry must have an
// effect; one that has none is an error, so the file never outlives its
// reasons.
type Overlay struct {
	Product string `yaml:"product"`
	Title   string `yaml:"title"` // "Proxmox VE"

	// Marks are paths that only this product's API has: they tell to which
	// family a description of another name belongs.
	Marks []string `yaml:"marks"`

	Client Client `yaml:"client"`

	// Words are spellings for Go ("OnBoot"), beside those of words.txt.
	Words []string `yaml:"words"`

	// Nouns name what a path leads to, parameters written {}: its own
	// operations and those below it are called after it.
	Nouns map[string]string `yaml:"nouns"`

	// Names are method names that the rule would not give, by "GET /path".
	Names map[string]string `yaml:"names"`

	// Fields are Go names of single parameters or members, by selector, where
	// two names of one structure would be the same in Go.
	Fields []FieldName `yaml:"fields"`

	Corrections []Correction `yaml:"corrections"`

	// Shared lists, by type name, the places that share one Go type.
	Shared map[string]Selectors `yaml:"shared"`

	// Types names the Go type of single places, where the rule's name is taken
	// or reads badly.
	Types map[string]string `yaml:"types"`

	// Streams gives the operations that carry no JSON (upload, download or
	// websocket), or that do (json), where the description does not say so.
	Streams map[string]string `yaml:"streams"`

	// Rights tell who may call operations where the description has words for it
	// only.
	Rights []Rights `yaml:"rights"`

	// Acts lists the operations that change something although their method is GET, by
	// "GET /path". They are not repeated as reads are.
	Acts []string `yaml:"acts"`

	// Notes say in our own words what a value means, where its name and the facts do
	// not: units, forms, what to use instead.
	Notes []Note `yaml:"notes"`

	Exceptions []Exception `yaml:"exceptions"`

	// Summaries are our own first lines for doc comments, by "GET /path".
	Summaries map[string]string `yaml:"summaries"`
}

// Client holds the facts about a product's servers that its client needs.
type Client struct {
	TokenScheme    string `yaml:"token_scheme"`    // of the Authorization header
	TokenSeparator string `yaml:"token_separator"` // between the token's ID and its secret
	Cookie         string `yaml:"cookie"`          // that carries the ticket
	Port           int    `yaml:"port"`
	BasePath       string `yaml:"base_path"`
}

// A Correction changes the schema at a place. Copy names another place whose
// schema is taken first; Set is merged into the schema as a JSON merge patch, in
// which null removes.
type Correction struct {
	At     Selectors      `yaml:"at"`
	Copy   string         `yaml:"copy"`
	Set    map[string]any `yaml:"set"`
	Reason string         `yaml:"reason"`
}

// An Exception names operations without a method (Skip), or places whose values
// stay raw JSON because nothing describes them.
type Exception struct {
	At     Selectors `yaml:"at"`
	Skip   bool      `yaml:"skip"`
	Reason string    `yaml:"reason"`
}

// A FieldName gives the Go name of one parameter or member.
type FieldName struct {
	At   Selectors `yaml:"at"`
	Name string    `yaml:"name"`
	Drop bool      `yaml:"drop"` // leave the parameter out: an old spelling of another
}

// A Note is a text about single places: whole sentences, the first of which may lack its
// verb.
type Note struct {
	At   Selectors `yaml:"at"`
	Text string    `yaml:"text"`
}

// Selectors select places; see [selector]. In YAML one may stand alone.
type Selectors []string

// UnmarshalYAML accepts one text or a list of them.
func (s *Selectors) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*s = Selectors{node.Value}
		return nil
	}
	return node.Decode((*[]string)(s))
}

// ParseOverlay reads an overlay file. Unknown keys are errors.
func ParseOverlay(data []byte) (*Overlay, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	ov := new(Overlay)
	if err := dec.Decode(ov); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("overlay: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return ov, ov.check()
}

func (ov *Overlay) check() error {
	var problems []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for i, c := range ov.Corrections {
		if len(c.At) == 0 || len(c.Set) == 0 && c.Copy == "" || c.Reason == "" {
			say("corrections[%d] %v needs at, set or copy, and reason", i, c.At)
		}
		if _, err := json.Marshal(c.Set); err != nil {
			say("corrections[%d] %v: set: %v", i, c.At, err)
		}
	}
	for i, e := range ov.Exceptions {
		if len(e.At) == 0 || e.Reason == "" {
			say("exceptions[%d] %v needs at and reason", i, e.At)
		}
	}
	for i, f := range ov.Fields {
		if len(f.At) == 0 || (f.Name == "") == !f.Drop {
			say("fields[%d] %v needs at and either name or drop", i, f.At)
		}
	}
	checkRights(ov.Rights, say)
	for i, n := range ov.Notes {
		if len(n.At) == 0 || n.Text == "" {
			say("notes[%d] %v needs at and text", i, n.At)
		}
	}
	for _, op := range ov.Acts {
		if !strings.HasPrefix(op, "GET ") {
			say("acts: %s is no GET: nothing repeats it anyway", op)
		}
	}
	for op, kind := range ov.Streams {
		if kind != "upload" && kind != "download" && kind != "websocket" && kind != "json" {
			say("streams: %s: %q is none of upload, download, websocket, json", op, kind)
		}
	}
	if len(problems) > 0 {
		return problemError(problems)
	}
	return nil
}

// problemError lists problems, one a line.
func problemError(problems []string) error {
	const most = 400
	if len(problems) > most {
		problems = append(problems[:most:most], fmt.Sprintf("and %d more", len(problems)-most))
	}
	return errors.New(strings.Join(problems, "\n"))
}

// Fits reports whether the overlay is that of the product doc describes,
// whatever doc calls it: all the marks are there.
func (ov *Overlay) Fits(doc *apidoc.Document) bool {
	if len(ov.Marks) == 0 {
		return false
	}
	paths := map[string]bool{}
	for _, op := range doc.Operations {
		paths[op.Path] = true
	}
	for _, m := range ov.Marks {
		if !paths[m] {
			return false
		}
	}
	return true
}
