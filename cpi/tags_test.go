package cpi

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// pveTag is what PVE accepts as a tag.
func pveTag() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9_][a-z0-9_.+-]*$`) }

func TestNormaliseTag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "",
		"-.+":                     "",
		"web":                     "web",
		"Web_1.2+x":               "web_1.2+x",
		"Ünïcode & spaces":        "n-code-spaces",
		"a;b,c d":                 "a-b-c-d",
		"--x--":                   "x",
		"日本":                      "",
		strings.Repeat("x", 200):  strings.Repeat("x", 63),
		strings.Repeat("x-", 200): strings.Repeat("x-", 31) + "x",
		"web/899a9411-a08b":       "web-899a9411-a08b",
	} {
		assert.Equal(t, want, normaliseTag(text), text)
	}
}

func TestOwnershipTags(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"bosh", "bosh-vm", "vm-101-abc", "director-dir-a"}, ownershipTags(tagVM, "vm-101-abc", "dir-a"))
	assert.Equal(t, []string{"bosh", "bosh-disk", "d"}, ownershipTags(tagDisk, "d", ""))
}

func TestMetadataTags(t *testing.T) {
	t.Parallel()
	tags, dropped := metadataTags(rpc.Metadata{
		"director": "My Director", "deployment": "Ünïcode & spaces", "id": "899a9411", "job": "web", "instance_group": "web", "index": "0",
		"name": "web/899a9411", "created_at": "2026-12-01T00:00:00Z", "long": strings.Repeat("x", 200),
		"bosh": "vm", "disk": "k3v9q2m8x1z7c4b", "zone": "", "ü": "x",
	})
	assert.Equal(t, []string{"deployment-n-code-spaces", "instance_group-web", "job-web", "long-" + strings.Repeat("x", 58), "zone"}, tags)
	assert.Equal(t, []string{"bosh", "disk", "ü"}, dropped, "what looks like a tag of ours is left out")
	for _, tag := range tags {
		assert.Regexp(t, pveTag(), tag)
	}

	many := rpc.Metadata{"job": "web"}
	for i := range 60 {
		many["key"+strings.Repeat("k", i)] = "value"
	}
	tags, dropped = metadataTags(many)
	assert.Equal(t, "job-web", tags[0], "what people look for is not dropped")
	assert.LessOrEqual(t, len(strings.Join(tags, ";")), maxMetadataTags)
	assert.Len(t, dropped, len(many)-len(tags))
}

func TestRetag(t *testing.T) {
	t.Parallel()
	own := ownershipTags(tagVM, "vm-101-x", "d")
	first := retag([]string{"bosh-vm", "bosh", "mine", "vm-101-x", "director-d"}, own, nil, []string{"job-web", "index-0"})
	assert.Equal(t, []string{"bosh", "bosh-vm", "vm-101-x", "director-d", "job-web", "index-0", "mine"}, first)

	second := retag(first, own, []string{"job-web", "index-0"}, []string{"job-db"})
	assert.Equal(t, []string{"bosh", "bosh-vm", "vm-101-x", "director-d", "job-db", "mine"}, second)
	assert.True(t, sameTags(second, retag(second, own, []string{"job-db"}, []string{"job-db"})), "the same metadata changes nothing")
	assert.True(t, sameTags([]string{"B", "a", ""}, []string{"a", "b", "b"}))
	assert.False(t, sameTags([]string{"a"}, []string{"a", "b"}))
	assert.True(t, hasTags([]string{"A", "b"}, "a", "B"))
	assert.False(t, hasTags([]string{"a"}, "a", "b"))
}

func TestLabelTags(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"cost-center-42", "owner-me"}, labelTags(map[string]string{"owner": "Me", "cost center": "42", "vm": "1", "": "x"}))
}

func TestNoteRoundTrip(t *testing.T) {
	t.Parallel()
	n := note{
		Facts:    map[string]string{"cid": "vm-101-x"},
		Metadata: map[string]string{"name": "web/1", "text": "a \"b\" <c> & ```\n```bosh\nü"},
		Tags:     []string{"job-web"},
	}
	for _, text := range []string{"", "written by hand", "two\n\nparagraphs with ```\ncode\n```"} {
		description, cut := n.describe(text)
		assert.False(t, cut)
		gotText, got, ok := parseNote(description)
		require.True(t, ok)
		assert.Equal(t, text, gotText)
		assert.Equal(t, n, got)
		again, _ := got.describe(gotText)
		assert.Equal(t, description, again, "a repeated call writes nothing")
	}
}

func TestNoteKeepsWhatStandsAround(t *testing.T) {
	t.Parallel()
	description, _ := note{Facts: map[string]string{"a": "b"}}.describe("above")
	text, n, ok := parseNote(strings.ReplaceAll(description, "\n", "\r\n") + "\n\nbelow\n")
	require.True(t, ok)
	assert.Equal(t, "above\n\nbelow", text)
	assert.Equal(t, map[string]string{"a": "b"}, n.Facts)

	text, _, ok = parseNote("only text")
	assert.False(t, ok)
	assert.Equal(t, "only text", text)

	text, _, ok = parseNote("above\n```bosh\n{broken\n```\nbelow")
	assert.False(t, ok)
	assert.Equal(t, "above\n\nbelow", text, "a broken note is replaced, not piled up")

	text, _, ok = parseNote("above\n```bosh\n{\"facts\":{}}")
	assert.True(t, ok, "a note without its end is read as far as it goes")
	assert.Equal(t, "above", text)
}

func TestNoteFitsTheDescription(t *testing.T) {
	t.Parallel()
	n := note{
		Facts:    map[string]string{"digest": strings.Repeat("f", 64)},
		Metadata: map[string]string{"short": "kept", "long": strings.Repeat("ü", 9000), "longer": strings.Repeat("x\n", 9000)},
	}
	description, cut := n.describe("by hand")
	assert.True(t, cut)
	assert.LessOrEqual(t, utf8.RuneCountInString(description), 8192)
	text, got, ok := parseNote(description)
	require.True(t, ok)
	assert.Equal(t, "by hand", text)
	assert.Equal(t, n.Facts, got.Facts)
	assert.Equal(t, "kept", got.Metadata["short"])
	assert.True(t, strings.HasSuffix(got.Metadata["longer"], "…"))
	assert.Len(t, n.Metadata["longer"], 18000, "the note itself is unchanged")

	wide := note{Metadata: map[string]string{}}
	for i := range 900 {
		wide.Metadata[strings.Repeat("k", i%20)+string(rune('a'+i%26))+strings.Repeat("z", i/26)] = "value of it"
	}
	description, cut = wide.describe("")
	assert.True(t, cut)
	assert.LessOrEqual(t, utf8.RuneCountInString(description), 8192)

	description, cut = n.describe(strings.Repeat("o", 8100))
	assert.True(t, cut)
	assert.Equal(t, strings.Repeat("o", 8100), description, "the operator's own text is never cut")
}

func FuzzParseNote(f *testing.F) {
	f.Add("text\n\n```bosh\n{\"facts\":{\"a\":\"b\"}}\n```", "v")
	f.Add("```bosh\n```bosh\n", "\xff```\n")
	f.Fuzz(func(t *testing.T, description, value string) {
		text, n, _ := parseNote(description)
		if n.Metadata == nil {
			n.Metadata = map[string]string{}
		}
		n.Metadata["fuzz"] = value
		out, cut := n.describe(text)
		if cut {
			return
		}
		gotText, got, ok := parseNote(out)
		require.True(t, ok)
		require.Equal(t, text, gotText)
		require.Equal(t, strings.ToValidUTF8(value, "\uFFFD"), got.Metadata["fuzz"])
	})
}

func FuzzNormaliseTag(f *testing.F) {
	f.Add("Ünïcode & spaces")
	valid := pveTag()
	f.Fuzz(func(t *testing.T, text string) {
		tag := normaliseTag(text)
		if tag == "" {
			return
		}
		require.Regexp(t, valid, tag)
		require.LessOrEqual(t, len(tag), maxTag)
		require.Equal(t, tag, normaliseTag(tag))
	})
}
