package cpi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// The tags of everything the CPI makes. A guest is ours when it carries the tag
// of its kind and its CID; tagOwner groups them all in the user interface.
const (
	tagOwner    = "bosh"
	tagVM       = "bosh-vm"
	tagDisk     = "bosh-disk"
	tagStemcell = "bosh-stemcell"

	tagDirectorPrefix = "director-"
)

const (
	// PVE has no limit for one tag; this keeps a list of guests readable.
	maxTag = 63
	// The tags that come from the Director's metadata take at most this much
	// together. The tags of ownership come first and are never cut.
	maxMetadataTags = 1024
)

// ownershipTags returns the tags by which the CPI finds a guest again. They come
// first in every list, because whoever cuts a list cuts its end.
func ownershipTags(kind, cid, directorUUID string) []string {
	tags := []string{tagOwner, kind, cid}
	if tag := directorTag(directorUUID); tag != "" {
		tags = append(tags, tag)
	}
	return tags
}

// directorTag returns the tag that names a Director, or "" for none.
func directorTag(uuid string) string {
	tag := normaliseTag(uuid)
	if tag == "" {
		return ""
	}
	return normaliseTag(tagDirectorPrefix + tag)
}

// isOwnershipTag reports whether a tag has the form of one of the CPI's own, so
// that nothing else may be called that.
func isOwnershipTag(tag string) bool {
	if tag == tagOwner {
		return true
	}
	for _, prefix := range []string{tagOwner + "-", tagDirectorPrefix, vmPrefix, diskPrefix, stemcellPrefix} {
		if strings.HasPrefix(tag, prefix) {
			return true
		}
	}
	return false
}

// normaliseTag turns any text into a tag that PVE accepts: lower case, letters,
// digits and _ . + -, of which the last three do not come first. What cannot be
// in a tag becomes a hyphen. A text of nothing else gives "".
func normaliseTag(text string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(text) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_':
			b.WriteRune(c)
		case b.Len() == 0:
		case c == '.', c == '+':
			b.WriteRune(c)
		default:
			if !strings.HasSuffix(b.String(), "-") {
				b.WriteByte('-')
			}
		}
	}
	tag := b.String()
	if len(tag) > maxTag {
		tag = tag[:maxTag]
	}
	return strings.TrimRight(tag, "-.+")
}

// labelTag returns the tag for a label, key-value, or "" when it would pass for
// one of the CPI's own or says nothing.
func labelTag(key, value string) string {
	k := normaliseTag(key)
	tag := normaliseTag(k + "-" + value)
	if k == "" || tag == "" || isOwnershipTag(tag+"-") {
		return ""
	}
	return tag
}

// labelTags returns the tags for the operator's own labels, sorted.
func labelTags(labels map[string]string) []string {
	var out []string
	for _, key := range sortedKeys(labels) {
		if tag := labelTag(key, labels[key]); tag != "" && !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	return out
}

// rewrittenTags says which of an operator's labels become tags that read otherwise,
// or "".
func rewrittenTags(labels map[string]string) string {
	var out []string
	for _, key := range sortedKeys(labels) {
		if tag := labelTag(key, labels[key]); tag != key+"-"+labels[key] {
			out = append(out, fmt.Sprintf("%q: %q becomes %s", key, labels[key], tag))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "tags are of lower-case letters, digits and _ . + -: " + strings.Join(out, ", ")
}

// metadataTags returns the tags for the Director's metadata: what people filter
// by. Identifiers and times, which no two guests share, stay in the description
// alone. dropped says what did not fit.
func metadataTags(m rpc.Metadata) (tags, dropped []string) {
	skip := []string{
		"director", "id", "index", "name", "created_at", "attached_at", "instance_id", "instance_index",
	}
	size := 0
	// What every BOSH operator looks for first is not what gets dropped.
	keys := []string{"deployment", "instance_group", "job"}
	for _, key := range sortedKeys(m) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		value, ok := m[key]
		if !ok || slices.Contains(skip, key) {
			continue
		}
		tag := labelTag(key, value)
		switch {
		case tag == "" || size+len(tag)+1 > maxMetadataTags:
			dropped = append(dropped, key)
		case !slices.Contains(tags, tag):
			size += len(tag) + 1
			tags = append(tags, tag)
		}
	}
	return tags, dropped
}

// retag returns the tags of a guest after its metadata changed: those of
// ownership first, then the new tags, then whatever else was there, which is the
// operator's. The tags of the old metadata go.
func retag(current, ownership, oldTags, newTags []string) []string {
	out := slices.Clone(ownership)
	add := func(tag string) {
		if tag != "" && !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	for _, tag := range newTags {
		add(tag)
	}
	for _, tag := range current {
		if !slices.Contains(oldTags, tag) {
			add(tag)
		}
	}
	return out
}

// sameTags compares tags as PVE does: without regard to order or case.
func sameTags(a, b []string) bool {
	fold := func(tags []string) []string {
		out := make([]string, 0, len(tags))
		for _, tag := range tags {
			if tag = strings.ToLower(strings.TrimSpace(tag)); tag != "" {
				out = append(out, tag)
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return slices.Equal(fold(a), fold(b))
}

// hasTags reports whether tags holds all of want.
func hasTags(tags []string, want ...string) bool {
	for _, w := range want {
		if !slices.ContainsFunc(tags, func(t string) bool { return strings.EqualFold(t, w) }) {
			return false
		}
	}
	return true
}

// tags reads a map of labels that an operator adds.
func (r *objectReader) tags(key string) map[string]string {
	labels := r.texts(key)
	size := 0
	for _, k := range sortedKeys(labels) {
		tag := labelTag(k, labels[k])
		if tag == "" {
			r.fail(key+"."+k, "cannot be a tag: it has no usable character, or looks like one of the CPI's own tags (bosh, director, vm, disk, stemcell)")
		}
		size += len(tag) + 1
	}
	if size > maxMetadataTags {
		r.fail(key, "makes %d characters of tags, at most %d are possible", size, maxMetadataTags)
	}
	return labels
}
