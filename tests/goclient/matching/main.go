// Command matching writes a table of what Kubernetes' own code selects and tolerates: matching OUT.
//
// The rows hold what can be written into a manifest, also what an API server refuses, and the answers: labels.Parse for
// selectors in text, metav1.LabelSelectorAsSelector for those of workloads, component-helpers' nodeaffinity for those
// of nodes, Toleration.ToleratesTaint (without the alpha operators Gt and Lt) for taints. A selector that cannot be
// parsed selects nothing, as for the scheduler, the kubelet and the DaemonSet controller.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// row is one selector: Error where it cannot be parsed, else which of the label values it selects. None is the absence
// of the label.
type row struct {
	requirement
	Error    bool     `json:"error,omitempty"`
	Selected []string `json:"selected,omitempty"`
	None     bool     `json:"none,omitempty"`
}

type query struct {
	Text     string `json:"text"`
	Error    string `json:"error,omitempty"`
	Selected []int  `json:"selected,omitempty"`
}

type term struct {
	MatchExpressions []requirement `json:"matchExpressions,omitempty"`
	MatchFields      []requirement `json:"matchFields,omitempty"`
}

// choice is a required node affinity; Selected are the indices of the nodes.
type choice struct {
	Terms    []term `json:"terms"`
	Selected []int  `json:"selected,omitempty"`
}

type toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
	// Tolerated are the indices of the taints.
	Tolerated []int `json:"tolerated,omitempty"`
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

type node struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

var operators = []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "", "in", "Equals", "Near"}

var valueLists = [][]string{
	nil, {""}, {"5"}, {"007"}, {"+1"}, {"-1"}, {"--5"}, {"1.5"}, {"1_0"}, {" 5"}, {"0x5"}, {"a"}, {"9223372036854775807"},
	{"9223372036854775808"}, {"a", "b"}, {"a", "-b"}, {"a", "a b"}, {"a", "b/c"}, {"5", "6"},
	{"a123456789b123456789c123456789d123456789e123456789f123456789g123"},
	{"a123456789b123456789c123456789d123456789e123456789f123456789g1234"},
}

var labelValues = []string{
	"", "a", "b", "c", "0", "1", "4", "5", "6", "10", "005", "-1", "+1", "-2", "--5", "1.5", "5a",
	"9223372036854775806", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
}

var keys = []string{"", "a b", "-a", "example.com/a", "Example.com/a", "/a", "a/b/c", "a_.b"}

var queries = []string{
	"", " ", "a", "!a", "! a", "a=x", "a==x", "a = x", "a!=x", "a=", "a!=", "a in (x)", "a in (x, y)", "a in(x)", "a in ()",
	"a in (,x)", "a in (x,,y)", "a notin (x)", "a notin (x,y),b", "a,b", "a,!b", "a=x,b=1", "b>1", "b<2", "b > 1", "b>-1",
	"b>+1", "b>--5", "b>x", "b>", "b>=1", "a,,b", "a,", ",a", "a=-x", "a=x y", "-a", "a in (-x)", "a in x", "in in (in)",
	"notin", "a in (x", "a=b=c", "!a=x", "a!", "a/b/c", "example.com/a=x", "a=x;b", "a in (x) b", "b<9223372036854775808",
	"a in (x y)", "a in (,-x)", "a b",
}

var labelSets = []map[string]string{
	{}, {"a": "x"}, {"a": "y"}, {"a": ""}, {"b": "1"}, {"b": "2"}, {"a": "x", "b": "1"}, {"b": "-1"}, {"b": "x"}, {"in": "in"},
	{"notin": ""}, {"example.com/a": "x"},
}

var nodes = []node{
	{"n1", map[string]string{"zone": "a", "rank": "1"}},
	{"n2", map[string]string{"zone": "b", "rank": "10"}},
	{"n3", map[string]string{}},
}

var (
	zoneA  = requirement{"zone", "In", []string{"a"}}
	high   = requirement{"rank", "Gt", []string{"5"}}
	broken = requirement{"zone", "Near", []string{"a"}}
	none   = requirement{"zone", "NotIn", nil}
)

var choices = [][]term{
	{}, {{}}, {{MatchExpressions: []requirement{zoneA}}}, {{MatchExpressions: []requirement{zoneA, high}}},
	{{MatchExpressions: []requirement{zoneA}}, {MatchExpressions: []requirement{high}}},
	{{MatchExpressions: []requirement{broken}}, {MatchExpressions: []requirement{high}}},
	{{MatchExpressions: []requirement{none}}, {MatchExpressions: []requirement{zoneA}}},
	{{MatchExpressions: []requirement{none, zoneA}}}, {{}, {MatchExpressions: []requirement{zoneA}}},
	{{MatchExpressions: []requirement{zoneA}, MatchFields: []requirement{{"metadata.name", "In", []string{"n2"}}}}},
	{field("metadata.name", "In", "n1")}, {field("metadata.name", "NotIn", "n1")}, {field("metadata.name", "In")},
	{field("metadata.name", "NotIn")}, {field("metadata.name", "In", "n1", "n2")}, {field("metadata.name", "Exists")},
	{field("metadata.name", "Gt", "1")}, {field("metadata.name", "Near", "n1")}, {field("metadata.namespace", "In", "n1")},
	{field("metadata.namespace", "NotIn", "n1")}, {field("metadata.namespace", "In", "")},
	{field("metadata.namespace", "NotIn", "")}, {field("metadata.name", "NotIn", "a b")},
}

var taints = []taint{
	{"k", "v", "NoSchedule"}, {"k", "", "NoSchedule"}, {"k", "v", "NoExecute"}, {"k", "v", "PreferNoSchedule"},
	{"other", "v", "NoSchedule"}, {"k", "10", "NoSchedule"}, {"", "v", "NoSchedule"},
}

func field(key, operator string, values ...string) term {
	return term{MatchFields: []requirement{{key, operator, values}}}
}

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: matching OUT"))
	}
	out, err := os.Create(os.Args[1])
	fail(err)
	section := func(name string, rows []any, last bool) {
		fmt.Fprintf(out, "%q: [\n", name)
		for at, one := range rows {
			line, err := json.Marshal(one)
			fail(err)
			end := ",\n"
			if at == len(rows)-1 {
				end = "\n"
			}
			_, err = fmt.Fprintf(out, " %s%s", line, end)
			fail(err)
		}
		if last {
			fmt.Fprint(out, "]}\n")
		} else {
			fmt.Fprint(out, "],\n")
		}
	}
	fmt.Fprint(out, "{")
	section("labelValues", anys(labelValues), false)
	section("nodeRequirements", anys(requirements(ofNodes)), false)
	section("labelRequirements", anys(requirements(ofLabels)), false)
	section("labelSets", anys(labelSets), false)
	section("queries", anys(parsed()), false)
	section("nodes", anys(nodes), false)
	section("nodeSelectors", anys(chosen()), false)
	section("taints", anys(taints), false)
	section("tolerations", anys(tolerations()), true)
	fail(out.Close())
}

// requirements asks about every operator with every list of values, and about every key.
func requirements(selects func(requirement, labels.Set) (bool, error)) []row {
	var asked []requirement
	for _, operator := range operators {
		for _, values := range valueLists {
			asked = append(asked, requirement{"key", operator, values})
		}
	}
	for _, key := range keys {
		asked = append(asked, requirement{key, "NotIn", []string{"a"}}, requirement{key, "DoesNotExist", nil})
	}
	var rows []row
	for _, one := range asked {
		found := row{requirement: one}
		selected, err := selects(one, labels.Set{})
		found.Error, found.None = err != nil, selected
		for _, value := range labelValues {
			if ok, _ := selects(one, labels.Set{one.Key: value}); ok {
				found.Selected = append(found.Selected, value)
			}
		}
		rows = append(rows, found)
	}
	return rows
}

func ofNodes(one requirement, set labels.Set) (bool, error) {
	return match([]term{{MatchExpressions: []requirement{one}}}, "n", set)
}

func ofLabels(one requirement, set labels.Set) (bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: one.Key, Operator: metav1.LabelSelectorOperator(one.Operator), Values: one.Values},
	}})
	return err == nil && selector.Matches(set), err
}

func parsed() []query {
	var rows []query
	for _, text := range queries {
		selector, err := labels.Parse(text)
		found := query{Text: text}
		if err != nil {
			found.Error = err.Error()
		}
		for at, set := range labelSets {
			if err == nil && selector.Matches(labels.Set(set)) {
				found.Selected = append(found.Selected, at)
			}
		}
		rows = append(rows, found)
	}
	return rows
}

func chosen() []choice {
	var rows []choice
	for _, terms := range choices {
		found := choice{Terms: terms}
		for at, one := range nodes {
			if ok, _ := match(terms, one.Name, one.Labels); ok {
				found.Selected = append(found.Selected, at)
			}
		}
		rows = append(rows, found)
	}
	return rows
}

func match(terms []term, name string, set labels.Set) (bool, error) {
	selector := &v1.NodeSelector{}
	for _, one := range terms {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, v1.NodeSelectorTerm{
			MatchExpressions: converted(one.MatchExpressions), MatchFields: converted(one.MatchFields),
		})
	}
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}}
	return nodeaffinity.NewLazyErrorNodeSelector(selector).Match(object)
}

func converted(asked []requirement) []v1.NodeSelectorRequirement {
	var found []v1.NodeSelectorRequirement
	for _, one := range asked {
		found = append(found, v1.NodeSelectorRequirement{Key: one.Key, Operator: v1.NodeSelectorOperator(one.Operator), Values: one.Values})
	}
	return found
}

func tolerations() []toleration {
	var rows []toleration
	for _, key := range []string{"", "k"} {
		for _, operator := range []string{"", "Equal", "Exists", "Gt", "Lt", "equal", "Near"} {
			for _, value := range []string{"", "v", "5"} {
				for _, effect := range []string{"", "NoSchedule", "NoExecute"} {
					rows = append(rows, tolerating(toleration{Key: key, Operator: operator, Value: value, Effect: effect}))
				}
			}
		}
	}
	return rows
}

func tolerating(one toleration) toleration {
	asked := v1.Toleration{
		Key: one.Key, Operator: v1.TolerationOperator(one.Operator), Value: one.Value, Effect: v1.TaintEffect(one.Effect),
	}
	for at, each := range taints {
		what := v1.Taint{Key: each.Key, Value: each.Value, Effect: v1.TaintEffect(each.Effect)}
		if asked.ToleratesTaint(klog.Background(), &what, false) {
			one.Tolerated = append(one.Tolerated, at)
		}
	}
	return one
}

func anys[Row any](rows []Row) []any {
	var found []any
	for _, one := range rows {
		found = append(found, one)
	}
	return found
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
