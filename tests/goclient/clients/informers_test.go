package clients

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

// told is what an informer's handler hears.
type told struct {
	verb string
	name string
}

// follow starts an informer of the namespace's ConfigMaps called a…; what it hears comes by the channel.
func follow(t *testing.T, c *cluster) (cache.SharedIndexInformer, <-chan told) {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(c.namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "test" }))
	informer := factory.Core().V1().ConfigMaps().Informer()
	heard := make(chan told, 2000)
	name := func(object any) string {
		if last, gone := object.(cache.DeletedFinalStateUnknown); gone {
			object = last.Obj
		}
		return object.(*corev1.ConfigMap).Name
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { heard <- told{"add", name(object)} },
		UpdateFunc: func(_, object any) { heard <- told{"update", name(object)} },
		DeleteFunc: func(object any) { heard <- told{"delete", name(object)} },
	})
	ok(t, err)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	factory.Start(stop)
	return informer, heard
}

var labelled = map[string]string{"test": "yes"}

func change(t *testing.T, c *cluster, name string) {
	t.Helper()
	patch := fmt.Sprintf(`{"data":{"at":"%d"}}`, time.Now().UnixNano())
	_, err := c.CoreV1().ConfigMaps(c.namespace).Patch(c.ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	ok(t, err)
}

func informs(t *testing.T, c *cluster) {
	t.Helper()
	c.configMap(t, "a1", labelled)
	c.configMap(t, "other", nil)
	informer, heard := follow(t, c)
	same(t, "first", receive(t, "the first object", heard), told{"add", "a1"})
	c.configMap(t, "a2", labelled)
	same(t, "second", receive(t, "a new object", heard), told{"add", "a2"})
	change(t, c, "a1")
	same(t, "third", receive(t, "a change", heard), told{"update", "a1"})
	ok(t, c.CoreV1().ConfigMaps(c.namespace).Delete(c.ctx, "a2", metav1.DeleteOptions{}))
	same(t, "fourth", receive(t, "a deletion", heard), told{"delete", "a2"})
	if !cache.WaitForCacheSync(c.ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer never synced")
	}
	same(t, "cached", len(informer.GetStore().List()), 1)
}

func TestInformerByWatchList(t *testing.T) {
	c := open(t)
	informs(t, c)
	same(t, "streaming lists", len(c.requests.matching("GET", "configmaps", "sendInitialEvents=true")), 1)
	same(t, "lists", len(c.requests.matching("GET", "configmaps?", "labelSelector"))-len(c.requests.matching("watch=true")), 0)
}

func TestInformerByListAndWatch(t *testing.T) {
	featurestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, false)
	c := openAlone(t)
	informs(t, c)
	same(t, "streaming lists", len(c.requests.matching("sendInitialEvents=true")), 0)
}

func TestInformerOfPodsBySelectedFields(t *testing.T) {
	c := open(t)
	c.pod(t, "a")
	selected := cache.NewListWatchFromClient(c.CoreV1().RESTClient(), "pods", c.namespace, fields.OneTermEqualSelector("spec.nodeName", "node-1"))
	heard := make(chan string, 10)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: selected, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { heard <- "add " + object.(*corev1.Pod).Name },
			DeleteFunc: func(object any) { heard <- "delete" },
		}})
	go informer.RunWithContext(c.ctx)
	if !cache.WaitForCacheSync(c.ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer never synced")
	}
	ok(t, c.CoreV1().Pods(c.namespace).Bind(c.ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}, metav1.CreateOptions{}))
	same(t, "entering the selection", receive(t, "the bound pod", heard), "add a")
	zero := int64(0)
	ok(t, c.CoreV1().Pods(c.namespace).Delete(c.ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	same(t, "leaving it", receive(t, "the deletion", heard), "delete")
}

func TestPagesOfAList(t *testing.T) {
	c := open(t)
	for i := range 7 {
		c.configMap(t, fmt.Sprint("a", i), labelled)
	}
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return c.CoreV1().ConfigMaps(c.namespace).List(c.ctx, options)
	}))
	pages.PageSize = 3
	before := len(c.requests.matching("limit=3"))
	listed, paged, err := pages.ListWithAlloc(c.ctx, metav1.ListOptions{LabelSelector: "test"})
	ok(t, err)
	same(t, "paged", paged, true)
	same(t, "requests", len(c.requests.matching("limit=3"))-before, 3)
	items, err := meta.ExtractList(listed)
	ok(t, err)
	same(t, "objects", len(items), 7)
}

func TestPagesAreOfOneMoment(t *testing.T) {
	c := open(t)
	for i := range 4 {
		c.configMap(t, fmt.Sprint("a", i), labelled)
	}
	maps := c.CoreV1().ConfigMaps(c.namespace)
	first, err := maps.List(c.ctx, metav1.ListOptions{LabelSelector: "test", Limit: 2})
	ok(t, err)
	ok(t, maps.Delete(c.ctx, "a3", metav1.DeleteOptions{}))
	c.configMap(t, "a4", labelled)
	second, err := maps.List(c.ctx, metav1.ListOptions{LabelSelector: "test", Limit: 2, Continue: first.Continue})
	ok(t, err)
	same(t, "last", second.Items[len(second.Items)-1].Name, "a3")
	same(t, "version", second.ResourceVersion, first.ResourceVersion)
}

// TestReflectorRecoversFromAnExpiredWatch: its first watch starts from a version long gone.
func TestReflectorRecoversFromAnExpiredWatch(t *testing.T) {
	c := open(t)
	c.configMap(t, "a1", labelled)
	c.configMap(t, "busy", nil)
	for range 600 { // more than a server of the tests remembers
		change(t, c, "busy")
	}
	var spoilt atomic.Bool
	c.requests.editing(func(request *http.Request) {
		query := request.URL.Query()
		if query.Get("watch") == "true" && spoilt.CompareAndSwap(false, true) {
			query.Set("resourceVersion", "1")
			request.URL.RawQuery = query.Encode()
		}
	})
	listed, heard := make(chan struct{}, 10), make(chan told, 100)
	source := &cache.ListWatch{
		ListFunc: func(options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = "test"
			found, err := c.CoreV1().ConfigMaps(c.namespace).List(c.ctx, options)
			listed <- struct{}{}
			return found, err
		},
		WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = "test"
			return c.CoreV1().ConfigMaps(c.namespace).Watch(c.ctx, options)
		},
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: withoutWatchList{source}, ObjectType: &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { heard <- told{"add", object.(*corev1.ConfigMap).Name} },
			UpdateFunc: func(_, object any) { heard <- told{"update", object.(*corev1.ConfigMap).Name} },
		}})
	go informer.RunWithContext(c.ctx)
	same(t, "first", receive(t, "the first object", heard), told{"add", "a1"})
	receive(t, "the first list", listed)
	receive(t, "the list after the watch was refused", listed)
	c.configMap(t, "a2", labelled)
	for receive(t, "the change after that", heard) != (told{"add", "a2"}) {
		continue
	}
}

// TestReflectorRecoversFromAVersionOfTheFuture: as after the server's data was wiped.
func TestReflectorRecoversFromAVersionOfTheFuture(t *testing.T) {
	c := open(t)
	c.configMap(t, "a1", labelled)
	var spoilt atomic.Bool
	c.requests.editing(func(request *http.Request) {
		query := request.URL.Query()
		if query.Get("sendInitialEvents") == "true" && spoilt.CompareAndSwap(false, true) {
			query.Set("resourceVersion", "999999999")
			request.URL.RawQuery = query.Encode()
		}
	})
	_, heard := follow(t, c)
	same(t, "first", receive(t, "the first object", heard), told{"add", "a1"})
	same(t, "spoilt", spoilt.Load(), true)
}

// withoutWatchList says of a source that it cannot stream lists.
type withoutWatchList struct{ *cache.ListWatch }

func (withoutWatchList) IsWatchListSemanticsUnSupported() bool { return true }

func TestAFutureVersionIsRefusedAsTooLarge(t *testing.T) {
	c := open(t)
	err := c.CoreV1().RESTClient().Get().Namespace(c.namespace).Resource("configmaps").
		Param("resourceVersion", "999999999").MaxRetries(0).Do(c.ctx).Error()
	if !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Fatal("a list of a version of the future: ", err)
	}
}

func TestAWatchEndsWhenItsTimeIsUp(t *testing.T) {
	c := open(t)
	second := int64(1)
	changes, err := c.CoreV1().ConfigMaps(c.namespace).Watch(c.ctx, metav1.ListOptions{
		TimeoutSeconds: &second, AllowWatchBookmarks: true, ResourceVersion: c.configMap(t, "a", nil).ResourceVersion})
	ok(t, err)
	for one := range changes.ResultChan() {
		if one.Type == watch.Error {
			t.Fatal("it ended with ", one.Object)
		}
	}
}
