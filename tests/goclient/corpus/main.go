// Command corpus writes objects in protobuf and in JSON side by side, as client-go encodes them.
//
// Usage: corpus OUT SEED COUNT GROUP/VERSION... (the core group is "v1"). Each line of OUT is one object, filled at
// random, COUNT of them for each kind: {"protobuf": HEX, "json": OBJECT}.
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
)

type line struct {
	Protobuf string          `json:"protobuf"` // hexadecimal
	JSON     json.RawMessage `json:"json"`
}

func main() {
	if len(os.Args) < 5 {
		panic("usage: corpus OUT SEED COUNT GROUP/VERSION...")
	}
	seed, count := number(os.Args[2]), number(os.Args[3])
	known := runtime.NewScheme()
	must(scheme.AddToScheme(known))
	must(apiextensions.AddToScheme(known))
	codecs := serializer.NewCodecFactory(known)
	filler := filler(int64(seed))
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	for _, name := range os.Args[4:] {
		version, err := schema.ParseGroupVersion(name)
		must(err)
		for _, kind := range kinds(known, version) {
			for range count {
				object, err := known.New(version.WithKind(kind))
				must(err)
				filler.Fill(object)
				object.GetObjectKind().SetGroupVersionKind(version.WithKind(kind))
				body := encoded(codecs, version, runtime.ContentTypeProtobuf, object)
				received, _, err := codecs.UniversalDeserializer().Decode(body, nil, nil)
				must(err) // what protobuf cannot tell apart, as nil from empty, is alike in both forms
				text := encoded(codecs, version, runtime.ContentTypeJSON, received)
				must(lines.Encode(line{Protobuf: hex.EncodeToString(body), JSON: text}))
			}
		}
	}
	must(os.WriteFile(os.Args[1], out.Bytes(), 0o644))
}

// kinds lists, in order, those that clients write.
func kinds(known *runtime.Scheme, version schema.GroupVersion) []string {
	var found []string
	for kind, goType := range known.KnownTypes(version) {
		ofMeta := goType.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1"
		written := !ofMeta || version.Group == "" && (kind == "DeleteOptions" || kind == "Status")
		if written && !strings.HasSuffix(kind, "List") && !strings.HasSuffix(kind, "Options") && kind != "ConversionReview" {
			found = append(found, kind)
		}
	}
	slices.Sort(found)
	return found
}

// filler fills objects with what its seed says; values of special types are such as a client would send.
func filler(seed int64) *randfill.Filler {
	source := rand.New(rand.NewSource(seed))
	return randfill.NewWithSeed(seed).NilChance(0.5).NumElements(1, 2).MaxDepth(12).Funcs(
		func(text *string, c randfill.Continue) { *text = strconv.FormatUint(c.Uint64()%46656, 36) },
		func(time *metav1.Time, c randfill.Continue) { *time = metav1.Unix(moment(source), 0) },
		func(at *metav1.MicroTime, c randfill.Continue) {
			*at = metav1.MicroTime{Time: time.Unix(moment(source), source.Int63n(1e6)*1000)}
		},
		func(quantity *resource.Quantity, c randfill.Continue) {
			*quantity = *resource.NewMilliQuantity(source.Int63n(1e6), resource.DecimalSI)
			_ = quantity.String()
		},
		func(either *intstr.IntOrString, c randfill.Continue) {
			*either = intstr.FromInt32(source.Int31() - 1<<30)
			if c.Bool() {
				*either = intstr.FromString(c.String(3))
			}
		},
		func(raw *runtime.RawExtension, c randfill.Continue) { raw.Raw = document(source) },
		func(fields *metav1.FieldsV1, c randfill.Continue) { fields.Raw = document(source) },
		func(raw *apiextensions.JSON, c randfill.Continue) { raw.Raw = document(source) },
		func(either *apiextensions.JSONSchemaPropsOrArray, c randfill.Continue) {
			either.Schema = &apiextensions.JSONSchemaProps{Type: c.String(3)}
			if c.Bool() {
				either.JSONSchemas, either.Schema = []apiextensions.JSONSchemaProps{*either.Schema, {}}, nil
			}
		},
		func(either *apiextensions.JSONSchemaPropsOrBool, c randfill.Continue) {
			either.Allows = c.Bool()
			if c.Bool() {
				either.Schema, either.Allows = &apiextensions.JSONSchemaProps{Type: c.String(3)}, true
			}
		},
		func(either *apiextensions.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			either.Schema = &apiextensions.JSONSchemaProps{Type: c.String(3)}
			if c.Bool() {
				either.Property, either.Schema = []string{"a", "b"}, nil
			}
		},
	)
}

func moment(source *rand.Rand) int64 { return source.Int63n(4e9) - 1e9 }

func document(source *rand.Rand) []byte {
	return fmt.Appendf(nil, `{"f:a":{".":{}},"n":%d}`, source.Intn(100))
}

func encoded(codecs serializer.CodecFactory, version schema.GroupVersion, media string, object runtime.Object) []byte {
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), media)
	if !ok {
		panic("no serializer for " + media + " of " + reflect.TypeOf(object).String())
	}
	text, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, version), object)
	must(err)
	return text
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
