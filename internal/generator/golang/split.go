package golang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A chunk is what belongs to one operation: its parameters and method, or one
// of its types.
type chunk struct {
	path, method string
	order        int
	seq          int
	text         string
	lines        int
}

const marker = "//proxkit:chunk "

// cut takes the output of the templates apart at its markers and brings the
// pieces into the order of the operations.
func cut(code string) ([]chunk, error) {
	var out []chunk
	for i, part := range strings.Split(code, marker)[1:] {
		head, text, _ := strings.Cut(part, "\n")
		words := strings.Fields(head)
		if len(words) != 3 {
			return nil, fmt.Errorf("a template printed the marker %q", head)
		}
		order, err := strconv.Atoi(words[2])
		if err != nil {
			return nil, fmt.Errorf("a template printed the marker %q", head)
		}
		text = strings.TrimSpace(text) + "\n"
		out = append(out, chunk{path: words[0], method: words[1], order: order, seq: i, text: text, lines: strings.Count(text, "\n") + 2})
	}
	slices.SortStableFunc(out, byOperation)
	return out, nil
}

func byOperation(a, b chunk) int {
	return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(methodRank(a.method), methodRank(b.method)), cmp.Compare(a.order, b.order), cmp.Compare(a.seq, b.seq))
}

func methodRank(method string) int {
	return slices.Index([]string{"GET", "POST", "PUT", "DELETE"}, method)
}

// split spreads chunks over files: one for each first segment of the path, or
// for each second one where that would be too long, and so on. Parameters do
// not count as segments.
func split(chunks []chunk) map[string][]chunk {
	files := map[string][]chunk{}
	for first, group := range groupBy(chunks, 0) {
		if first == "nodes" || first == "cluster" || lines(group) > MaxLines/2 {
			splitGroup(files, first, group, 1)
		} else {
			files[fileName(first)] = append(files[fileName(first)], group...)
		}
	}
	out := map[string][]chunk{}
	for file, chunks := range files {
		slices.SortStableFunc(chunks, byOperation)
		cutOff(out, file, chunks)
	}
	return out
}

// small is how many lines a group needs to get a file of its own.
const small = 150

func splitGroup(files map[string][]chunk, prefix string, chunks []chunk, level int) {
	for seg, group := range groupBy(chunks, level) {
		name := strings.TrimPrefix(prefix+"_"+seg, "nodes_")
		switch n := lines(group); {
		case seg == "" || n < small:
			files[fileName(prefix)] = append(files[fileName(prefix)], group...)
		case n > MaxLines-300 && deeper(group, level+1):
			splitGroup(files, name, group, level+1)
		default:
			files[fileName(name)] = append(files[fileName(name)], group...)
		}
	}
}

// cutOff begins another file where one would become too long.
func cutOff(out map[string][]chunk, file string, chunks []chunk) {
	name, n := file, 0
	for part := 2; len(chunks) > 0; chunks = chunks[1:] {
		if n+chunks[0].lines > MaxLines-100 && n > 0 {
			name, n = fmt.Sprintf("%s_part%d.go", strings.TrimSuffix(file, ".go"), part), 0
			part++
		}
		out[name] = append(out[name], chunks[0])
		n += chunks[0].lines
	}
}

func lines(chunks []chunk) int {
	n := 0
	for _, c := range chunks {
		n += c.lines
	}
	return n
}

func deeper(chunks []chunk, level int) bool { return len(maps.Collect(groupBy(chunks, level))) > 1 }

func groupBy(chunks []chunk, level int) func(yield func(string, []chunk) bool) {
	groups := map[string][]chunk{}
	for _, c := range chunks {
		seg := segment(c.path, level)
		groups[seg] = append(groups[seg], c)
	}
	return func(yield func(string, []chunk) bool) {
		for _, seg := range slices.Sorted(maps.Keys(groups)) {
			if !yield(seg, groups[seg]) {
				return
			}
		}
	}
}

// segment returns the level-th segment of path that is no parameter, or "".
func segment(path string, level int) string {
	for seg := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if strings.HasPrefix(seg, "{") {
			continue
		}
		if level == 0 {
			return seg
		}
		level--
	}
	return ""
}

// fileName returns the file for an area. The name must not end like one that
// Go builds only for tests or on some system.
func fileName(area string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '_'
	}, area)
	clean = strings.Trim(clean, "_")
	if clean == "" {
		clean = "root"
	}
	if clean == "client" {
		clean = "clients"
	}
	last := clean[strings.LastIndexByte(clean, '_')+1:]
	if slices.Contains(special, last) {
		clean += "_api"
	}
	return "zz_" + clean + ".go"
}

var special = strings.Fields(`test aix android darwin dragonfly freebsd hurd illumos ios js linux nacl netbsd openbsd plan9 solaris wasip1 windows zos unix
	386 amd64 amd64p32 arm armbe arm64 arm64be loong64 mips mipsle mips64 mips64le mips64p32 mips64p32le ppc ppc64 ppc64le riscv riscv64 s390 s390x sparc sparc64 wasm`)
