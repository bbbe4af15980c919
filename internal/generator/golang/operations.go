package golang

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/proxkit/proxkit/apidoc"
	"github.com/proxkit/proxkit/internal/generator/openapi"
	"github.com/proxkit/proxkit/internal/operation"
)

// operations are the entries of the table of operations, sorted by name.
func (g *generator) operations() operation.Table {
	var table operation.Table
	for path, item := range g.doc.Paths.Map() {
		for method, op := range item.Operations() {
			o := operation.Operation{
				Name:    op.OperationID,
				Method:  method,
				Path:    path,
				NoToken: op.Extensions[openapi.XNoToken] == true,
			}
			o.Kind, _ = op.Extensions[openapi.XKind].(string)
			o.Since, _ = op.Extensions[openapi.XSince].(string)
			var permissions *apidoc.Permissions
			if raw := op.Extensions[openapi.XPermissions]; raw != nil {
				permissions = new(apidoc.Permissions)
				if err := jsonAs(raw, permissions); err != nil {
					g.fail("%s: permissions: %w", o, err)
				}
			}
			o.Needs = requirement(permissions).String()
			if _, err := operation.ParseRequirement(o.Needs); err != nil {
				g.fail("%s: %w", o, err)
			}
			var texts []string
			for _, p := range parameters(path, op) {
				texts = append(texts, p.text())
			}
			o.Parameters = strings.Join(texts, " ")
			table = append(table, o)
		}
	}
	slices.SortFunc(table, func(a, b operation.Operation) int { return strings.Compare(a.Name, b.Name) })
	return table
}

// A parameter is one of an operation, with its schema.
type parameter struct {
	name     string
	ref      *openapi3.SchemaRef
	required bool
}

func (p parameter) text() string {
	text := p.name
	if t := p.ref.Value.Type; t != nil && len(*t) == 1 && !t.Is("string") {
		text += ":" + (*t)[0]
	}
	if p.required {
		text += "!"
	}
	if since := p.since(); since != "" {
		text += "@" + since
	}
	return text
}

func (p parameter) since() string {
	since, _ := extensions(p.ref)[openapi.XSince].(string)
	return since
}

// parameters lists those of the path as it names them, then the required ones, then the
// others.
func parameters(path string, op *openapi3.Operation) []parameter {
	var inPath, others []parameter
	for _, p := range op.Parameters {
		entry := parameter{p.Value.Name, p.Value.Schema, p.Value.Required}
		if p.Value.In == "path" {
			inPath = append(inPath, entry)
		} else {
			others = append(others, entry)
		}
	}
	if op.RequestBody != nil {
		for _, media := range op.RequestBody.Value.Content {
			schema := media.Schema.Value
			for name, ref := range schema.Properties {
				others = append(others, parameter{name, ref, slices.Contains(schema.Required, name)})
			}
		}
	}
	slices.SortFunc(inPath, func(a, b parameter) int {
		return strings.Index(path, "{"+a.name+"}") - strings.Index(path, "{"+b.name+"}")
	})
	slices.SortFunc(others, func(a, b parameter) int {
		if a.required != b.required {
			if a.required {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return append(inPath, others...)
}

// requirement turns permissions into what is to be met.
func requirement(p *apidoc.Permissions) operation.Requirement {
	root := operation.Requirement{Kind: operation.User, Name: "root@pam"}
	if p == nil {
		return root
	}
	var need operation.Requirement
	switch {
	case p.User == "world":
		need.Kind = operation.Everyone
	case p.User == "all":
		need.Kind = operation.Login
	case p.Check != nil:
		need = checked(p.Check)
		if p.User != "" {
			need = joined(operation.Or, operation.Requirement{Kind: operation.User, Name: p.User}, need)
		}
	case p.User != "":
		need = operation.Requirement{Kind: operation.User, Name: p.User}
	case p.Prose:
		return operation.Requirement{Kind: operation.Unstated}
	default:
		return root
	}
	if p.Prose {
		need = joined(operation.And, need, operation.Requirement{Kind: operation.Unstated})
	}
	return need
}

// joined joins requirements, without a level where none is needed.
func joined(kind operation.Kind, of ...operation.Requirement) operation.Requirement {
	var flat []operation.Requirement
	for _, r := range of {
		if r.Kind == kind && r.If == "" {
			flat = append(flat, r.Of...)
		} else {
			flat = append(flat, r)
		}
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return operation.Requirement{Kind: kind, Of: flat}
}

func checked(c *apidoc.Check) operation.Requirement {
	r := operation.Requirement{Kind: operation.Priv, Privileges: c.Privs, Any: c.Any && len(c.Privs) > 1, Path: c.Path}
	switch c.Op {
	case "and", "or":
		var of []operation.Requirement
		for _, sub := range c.Checks {
			of = append(of, checked(sub))
		}
		r = joined(operation.Kind(c.Op), of...)
	case "perm":
	case "user":
		switch c.Path {
		case "world":
			r = operation.Requirement{Kind: operation.Everyone}
		case "all":
			r = operation.Requirement{Kind: operation.Login}
		default:
			r = operation.Requirement{Kind: operation.User, Name: c.Path}
		}
	case "group":
		r = operation.Requirement{Kind: operation.Group, Name: c.Path}
	case "role":
		var of []operation.Requirement
		for _, role := range c.Args {
			of = append(of, operation.Requirement{Kind: operation.Role, Name: role})
		}
		r = joined(operation.Or, of...)
	case "userid-param":
		if slices.Contains(c.Args, "self") {
			r = operation.Requirement{Kind: operation.User, Name: "{userid}"}
		} else {
			r.Path = "/access/realm/{userid@realm}"
		}
	case "userid-group":
		r = ofGroups(c)
	case "perm-modify":
		r.Privileges = []string{"Permissions.Modify*"}
	default:
		r = operation.Requirement{Kind: operation.Unstated}
	}
	r.If = c.RequireParam
	return r
}

// ofGroups spells out PVE's check of privileges on users, who have no path of their own:
// on all groups, or on one the user is in. With "groups_param", the privilege is needed
// on each of the groups given, and a user to be created is in none yet.
func ofGroups(c *apidoc.Check) operation.Requirement {
	on := func(path string) operation.Requirement {
		return operation.Requirement{Kind: operation.Priv, Privileges: c.Privs, Any: len(c.Privs) > 1, Path: path}
	}
	var parts []operation.Requirement
	if slices.Contains(c.Args, "groups_param") {
		parts = append(parts, on("/access/groups/{groups…}"))
	}
	if !slices.Contains(c.Args, "create") {
		member := on("")
		member.GroupOf = "{userid}"
		parts = append(parts, member)
	}
	return joined(operation.Or, on("/access/groups"), joined(operation.And, parts...))
}

// sinceTable lists what is newer than the oldest release known, in the notation of
// rest.SinceIn.
func (g *generator) sinceTable() string {
	var lines []string
	for path, item := range g.doc.Paths.Map() {
		for method, op := range item.Operations() {
			add := func(param, since string) {
				if since != "" {
					lines = append(lines, strings.Join(strings.Fields(strings.Join([]string{method, path, param, since}, " ")), " "))
				}
			}
			since, _ := op.Extensions[openapi.XSince].(string)
			add("", since)
			for _, p := range parameters(path, op) {
				add(p.name, p.since())
				for key, sub := range g.propertyString(p.ref) {
					since, _ := extensions(sub)[openapi.XSince].(string)
					add(p.name+"."+key, since)
				}
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// propertyString returns the members of a text of keys and values, if ref is one.
func (g *generator) propertyString(ref *openapi3.SchemaRef) openapi3.Schemas {
	if ref.Ref != "" {
		return nil
	}
	text, _ := ref.Value.Extensions[openapi.XPropertyString].(string)
	target := g.doc.Components.Schemas[text[strings.LastIndexByte(text, '/')+1:]]
	if target == nil {
		return nil
	}
	return target.Value.Properties
}

// A walk is a list that comes in pages.
type walk struct{ All, List, Item string }

// walks finds the lists that come in pages: those whose parameters start and limit may
// be left out. The method for all of a list is that for a page with All in place of List.
func (g *generator) walks() []walk {
	var walks []walk
	for name, key := range g.ops {
		op := g.doc.Paths.Value(key.path).GetOperation(key.method)
		found := 0
		for _, p := range parameters(key.path, op) {
			if (p.name == "start" || p.name == "limit") && !p.required && p.ref.Value.Type.Is("integer") && !isIndexed(p.ref) {
				found++
			}
		}
		item, list := strings.CutPrefix(g.results[name], "[]")
		if found != 2 || !list {
			continue
		}
		noun, ok := strings.CutPrefix(name, "List")
		if !ok {
			noun = strings.TrimPrefix(name, "Get")
		}
		w := walk{All: "All" + noun, List: name, Item: item}
		if _, clash := g.ops[w.All]; clash {
			g.fail("%s %s: the method for the whole list would be called %s, as another is", key.method, key.path, w.All)
		}
		walks = append(walks, w)
	}
	slices.SortFunc(walks, func(a, b walk) int { return strings.Compare(a.All, b.All) })
	return walks
}

// tables makes the files that are not cut from oapi-codegen's output: the table of
// operations in a package of its own, so that a program that does not use it does not
// carry it, what servers know since when, and the walks through lists.
func (g *generator) tables(table operation.Table, since string, walks []walk) (map[string][]byte, error) {
	data := map[string]any{
		"header":  fmt.Sprintf("// Code generated by internal/generator from %s. DO NOT EDIT.\n// %s\n", g.opts.Source, g.opts.Command),
		"package": g.opts.Package, "module": g.opts.Module,
		"operations": table, "since": since, "walks": walks, "version": g.doc.Info.Version,
	}
	product, _ := g.doc.Extensions[openapi.XProduct].(map[string]any)
	maps.Copy(data, map[string]any{"title": product["title"]})
	own, err := readPackage(g.opts.Root, "internal/operation")
	if err != nil {
		return nil, err
	}
	var types []string
	for _, name := range []string{"Operation", "Param", "Requirement", "Kind", "Op", "Caller", "Unsure"} {
		text, err := own.alias("operation", name, name)
		if err != nil {
			return nil, err
		}
		types = append(types, text)
	}
	data["aliases"] = types
	names := map[string]string{"operations/zz_operations.go": "operations.tmpl"}
	if since != "" {
		names["zz_since.go"] = "since.tmpl"
	}
	if len(walks) > 0 {
		names["zz_lists.go"] = "lists.tmpl"
	}
	files := map[string][]byte{}
	for name, file := range names {
		t, err := template.ParseFS(templates, "templates/"+file)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, data); err != nil {
			return nil, err
		}
		out, err := g.format(b.Bytes())
		if err == nil && file == "operations.tmpl" {
			out, err = unlink(out)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = out
	}
	return files, nil
}
