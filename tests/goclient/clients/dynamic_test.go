package clients

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

// widgets defines a custom resource of the test's own through the typed client, which sends protobuf.
func widgets(t *testing.T, c *cluster) schema.GroupVersionKind {
	t.Helper()
	client, err := apiextensions.NewForConfig(c.config)
	ok(t, err)
	group := c.namespace + ".example.com"
	yes, one := true, float64(1)
	properties := map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Required: []string{"size"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"size":  {Type: "integer", Minimum: &one},
			"color": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"red"`)}},
			"any":   {XPreserveUnknownFields: &yes},
			"named": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
		}},
		"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"phase": {Type: "string"}}},
	}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList", ShortNames: []string{"gcw"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}}}}}
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	_, err = definitions.Create(c.ctx, definition, metav1.CreateOptions{})
	ok(t, err)
	t.Cleanup(func() { _ = definitions.Delete(c.ctx, definition.Name, metav1.DeleteOptions{}) })
	c.until(t, "the definition to be established", func() bool {
		current, err := definitions.Get(c.ctx, definition.Name, metav1.GetOptions{})
		ok(t, err)
		for _, condition := range current.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true
			}
		}
		return false
	})
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Widget"}
}

func TestCustomResourcesByMapperAndDynamicClient(t *testing.T) {
	c := open(t)
	kind := widgets(t, c)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Discovery()))
	c.until(t, "the mapper to know the kind", func() bool {
		mapper.Reset()
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		return err == nil
	})
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	ok(t, err)
	same(t, "resource", mapping.Resource.Resource, "widgets")
	same(t, "scope", string(mapping.Scope.Name()), "namespace")
	client, err := dynamic.NewForConfig(c.config)
	ok(t, err)
	objects := client.Resource(mapping.Resource).Namespace(c.namespace)
	widget := func(size int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
			"metadata": map[string]any{"name": "gear"}, "spec": map[string]any{"size": size, "unknown": true}}}
	}
	changes, err := objects.Watch(c.ctx, metav1.ListOptions{})
	ok(t, err)
	defer changes.Stop()
	_, err = objects.Create(c.ctx, widget(0), metav1.CreateOptions{})
	refused(t, err, metav1.StatusReasonInvalid)
	made, err := objects.Create(c.ctx, widget(2), metav1.CreateOptions{})
	ok(t, err)
	color, _, _ := unstructured.NestedString(made.Object, "spec", "color")
	same(t, "default", color, "red")
	_, kept, _ := unstructured.NestedBool(made.Object, "spec", "unknown")
	same(t, "unknown field", kept, false)
	same(t, "change", receive(t, "the creation", changes.ResultChan()).Type, watch.Added)
	ok(t, unstructured.SetNestedField(made.Object, "Ready", "status", "phase"))
	ready, err := objects.UpdateStatus(c.ctx, made, metav1.UpdateOptions{})
	ok(t, err)
	same(t, "generation", ready.GetGeneration(), 1)
	same(t, "change", receive(t, "the update", changes.ResultChan()).Type, watch.Modified)
	ok(t, objects.Delete(c.ctx, "gear", metav1.DeleteOptions{}))
	same(t, "change", receive(t, "the deletion", changes.ResultChan()).Type, watch.Deleted)
}

func TestDynamicInformer(t *testing.T) {
	c := open(t)
	client, err := dynamic.NewForConfig(c.config)
	ok(t, err)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, c.namespace, nil)
	informer := factory.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Informer()
	factory.Start(c.ctx.Done())
	if !cache.WaitForCacheSync(c.ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer never synced")
	}
	same(t, "objects", len(informer.GetStore().List()), 0)
}

func TestMetadataAlone(t *testing.T) {
	c := open(t)
	c.configMap(t, "a", labelled)
	client, err := metadata.NewForConfig(c.config)
	ok(t, err)
	objects := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(c.namespace)
	listed, err := objects.List(c.ctx, metav1.ListOptions{LabelSelector: "test"})
	ok(t, err)
	same(t, "name", listed.Items[0].Name, "a")
	one, err := objects.Get(c.ctx, "a", metav1.GetOptions{})
	ok(t, err)
	same(t, "uid", one.UID, listed.Items[0].UID)
	changes, err := objects.Watch(c.ctx, metav1.ListOptions{LabelSelector: "test", ResourceVersion: listed.ResourceVersion})
	ok(t, err)
	defer changes.Stop()
	change(t, c, "a")
	same(t, "changed", receive(t, "the change", changes.ResultChan()).Object.(*metav1.PartialObjectMetadata).Name, "a")
	patched, err := objects.Patch(c.ctx, "a", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
	ok(t, err)
	same(t, "label", patched.Labels["x"], "y")
	ok(t, objects.Delete(c.ctx, "a", metav1.DeleteOptions{}))
}

func TestDiscoveryAndDocuments(t *testing.T) {
	c := open(t)
	groups, resources, err := c.Discovery().ServerGroupsAndResources()
	ok(t, err)
	if len(groups) < 15 || len(resources) < 15 {
		t.Fatalf("%d groups, %d lists of resources", len(groups), len(resources))
	}
	version, err := c.Discovery().ServerVersion()
	ok(t, err)
	same(t, "major", version.Major, "1")
	paths, err := c.Discovery().OpenAPIV3().Paths()
	ok(t, err)
	text, err := paths["apis/apps/v1"].Schema("application/json")
	ok(t, err)
	if !strings.Contains(string(text), "DeploymentSpec") {
		t.Fatal("the document of apps/v1 describes no Deployments")
	}
}
