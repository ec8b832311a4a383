// Command prototable writes the table by which the embedded API server reads Kubernetes' protobuf bodies.
//
// Usage: prototable OUT GROUP/VERSION... (the core group is "v1"). The facts come from the Go types themselves: field
// numbers from the protobuf tags, names and what is left out from the JSON tags.
//
// One message is an object from field number to "NAME TYPE RULE". NAME is the JSON name, or - where the fields of the
// message stand in its parent. TYPE is a scalar, a message, []TYPE or map[TYPE]. RULE says what becomes of zero values
// as Go's JSON encoder treats them: "always" writes one even for an absent field, "given" keeps what was sent (a
// pointer), "nonzero" drops it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// Types whose JSON is not that of their fields; the decoder knows them by these names.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                "Time",
	reflect.TypeFor[metav1.MicroTime]():                           "MicroTime",
	reflect.TypeFor[metav1.FieldsV1]():                            "Raw",
	reflect.TypeFor[resource.Quantity]():                          "Quantity",
	reflect.TypeFor[intstr.IntOrString]():                         "IntOrString",
	reflect.TypeFor[runtime.RawExtension]():                       "Raw",
	reflect.TypeFor[apiextensions.JSON]():                         "Raw",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "SchemaOrArray",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "SchemaOrBool",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "SchemaOrStrings",
}

// The kinds of meta/v1 that clients send. They come under every group's name; the table has them once, as v1.
var bodies = map[string]bool{"DeleteOptions": true, "Status": true}

type table struct {
	Source   string
	Kinds    map[string]string
	Messages map[string]map[string]string
}

func main() {
	if len(os.Args) < 3 {
		fail("usage: prototable OUT GROUP/VERSION...")
	}
	known := runtime.NewScheme()
	must(scheme.AddToScheme(known))
	must(apiextensions.AddToScheme(known))
	found := table{Source: "k8s.io/api, k8s.io/apimachinery, k8s.io/apiextensions-apiserver v0.36.3",
		Kinds: map[string]string{}, Messages: map[string]map[string]string{}}
	for _, name := range os.Args[2:] {
		version, err := schema.ParseGroupVersion(name)
		must(err)
		for kind, goType := range known.KnownTypes(version) {
			ofMeta := goType.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1"
			if strings.HasSuffix(kind, "List") || ofMeta && !(name == "v1" && bodies[kind]) || !tagged(goType) {
				continue
			}
			found.Kinds[name+" "+kind] = found.message(goType)
		}
	}
	found.message(reflect.TypeFor[apiextensions.JSONSchemaProps]())
	must(os.WriteFile(os.Args[1], found.lines(), 0o644))
}

// lines is the table as JSON, one line a kind and one a message, so that changes can be read.
func (found *table) lines() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"source\": %s,\n", encoded(found.Source))
	section(&out, "kinds", found.Kinds, ",")
	section(&out, "messages", found.Messages, "}")
	return out.Bytes()
}

func section[V any](out *bytes.Buffer, name string, rows map[string]V, end string) {
	separator := ""
	fmt.Fprintf(out, "%s: {", encoded(name))
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(out, "%s\n %s: %s", separator, encoded(key), encoded(rows[key]))
		separator = ","
	}
	fmt.Fprintf(out, "\n}%s\n", end)
}

func encoded(value any) []byte {
	text, err := json.Marshal(value)
	must(err)
	return text
}

// tagged says whether a type has a protobuf form.
func tagged(t reflect.Type) bool {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("protobuf") != "" {
			return true
		}
	}
	return false
}

// message adds a struct, and all it refers to, to the table; returns its name.
func (found *table) message(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")
	name := strings.Join(append(path[len(path)-2:], t.Name()), ".")
	if _, done := found.Messages[name]; done {
		return name
	}
	fields := map[string]string{}
	found.Messages[name] = fields
	if t.Kind() == reflect.Slice { // a named list is a message of its items, and a list in JSON
		fields["1"] = "= " + found.kind(reflect.SliceOf(t.Elem())) + " given"
		return name
	}
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("protobuf")
		if tag == "" || tag == "-" {
			if field.Type != reflect.TypeFor[metav1.TypeMeta]() && !strings.Contains(field.Tag.Get("json"), "-") {
				fail(fmt.Sprintf("%s.%s has no protobuf tag", name, field.Name))
			}
			continue
		}
		number := strings.Split(tag, ",")[1]
		if _, err := strconv.Atoi(number); err != nil {
			fail(fmt.Sprintf("%s.%s: tag %q", name, field.Name, tag))
		}
		jsonName, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if jsonName == "" {
			if !strings.Contains(options, "inline") && !field.Anonymous {
				fail(fmt.Sprintf("%s.%s has no JSON name", name, field.Name))
			}
			jsonName = "-"
		}
		fields[number] = jsonName + " " + found.kind(field.Type) + " " + rule(field.Type, options)
	}
	return name
}

func rule(t reflect.Type, options string) string {
	omit := strings.Contains(options, "omitempty")
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return "given"
	case reflect.Struct:
		if strings.Contains(options, "omitzero") {
			return "nonzero"
		}
		return "always"
	}
	if omit {
		return "nonzero"
	}
	return "always"
}

func (found *table) kind(t reflect.Type) string {
	if name, ok := special[t]; ok {
		return name
	}
	if t.Kind() == reflect.Slice && t.Name() != "" && reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ Unmarshal([]byte) error }]()) {
		return found.message(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return found.kind(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + found.kind(t.Elem())
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			fail("a map with keys of type " + t.Key().String())
		}
		return "map[" + found.kind(t.Elem()) + "]"
	case reflect.Struct:
		return found.message(t)
	case reflect.String, reflect.Bool, reflect.Float64:
		return t.Kind().String()
	case reflect.Int32, reflect.Int64:
		return "int"
	}
	fail("no protobuf form of " + t.String())
	return ""
}

func must(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, "prototable:", text)
	os.Exit(1)
}
