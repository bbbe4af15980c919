package cpi

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// A note is what the CPI keeps in the description of a guest: in full what does
// not fit into tags. It stands in a fenced block at the end, so that it looks
// like what it is in the user interface, which renders the text as Markdown, and
// whatever an operator writes around it stays.
type note struct {
	// Facts are the CPI's own, such as the whole digest of a stemcell.
	Facts map[string]string `json:"facts,omitempty"`
	// Metadata is what the Director set.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Tags are the tags that came from Metadata, to be removed when it changes.
	Tags []string `json:"tags,omitempty"`
}

const (
	noteOpen  = "```bosh\n"
	noteClose = "\n```"
	// maxDescription is below the 8192 characters that PVE allows, because it
	// may escape some.
	maxDescription = 8000
)

// parseNote splits a description into the operator's text and the note. ok is
// false when there is no note or it cannot be read; a broken one is not part of
// the text, so that it is replaced and not piled up.
func parseNote(description string) (text string, n note, ok bool) {
	description = strings.ReplaceAll(description, "\r\n", "\n")
	start := strings.LastIndex("\n"+description, "\n"+noteOpen)
	if start < 0 {
		return strings.TrimSpace(description), note{}, false
	}
	before, rest := description[:start], description[start+len(noteOpen):]
	body, after, closed := strings.Cut(rest, noteClose)
	if !closed {
		after = ""
	}
	text = strings.TrimSpace(strings.TrimSpace(before) + "\n\n" + strings.TrimSpace(after))
	if json.Unmarshal([]byte(body), &n) != nil {
		return text, note{}, false
	}
	return text, n, true
}

// describe returns the description for a guest with an operator's text and the
// note. Values that do not fit are shortened, the longest first; cut reports
// that. The operator's text and the facts are kept whole.
func (n note) describe(text string) (description string, cut bool) {
	text = strings.TrimSpace(text)
	metadata := make(map[string]string, len(n.Metadata))
	for k, v := range n.Metadata {
		metadata[k] = strings.ToValidUTF8(v, "\uFFFD")
	}
	n.Metadata = metadata
	for {
		out := text
		if out != "" {
			out += "\n\n"
		}
		out += noteOpen + n.render() + noteClose
		excess := utf8.RuneCountInString(out) - maxDescription
		if excess <= 0 {
			return out, cut
		}
		longest := ""
		for _, k := range sortedKeys(metadata) {
			if len(metadata[k]) > len(metadata[longest]) {
				longest = k
			}
		}
		cut = true
		runes := []rune(metadata[longest])
		if len(runes) <= 16 {
			// Nothing is left to shorten: without the metadata, or not at all.
			if len(metadata) == 0 {
				return text, true
			}
			clear(metadata)
			continue
		}
		metadata[longest] = string(runes[:max(len(runes)-excess-16, len(runes)/2, 15)]) + "…"
	}
}

func (n note) render() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	// Texts always encode.
	_ = enc.Encode(n)
	return strings.TrimSpace(b.String())
}
