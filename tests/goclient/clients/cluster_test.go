// Package clients holds what client-go does to an API server: the same tests run on the embedded one and on a real one,
// whichever KUBECONFIG names.
package clients

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long anything may take; a test never waits longer for what it needs.
const patience = 20 * time.Second

func config(t *testing.T) *rest.Config {
	t.Helper()
	loaded, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Skip("KUBECONFIG names no cluster: ", err)
	}
	loaded.QPS, loaded.Burst = -1, -1
	return loaded
}

// cluster is a namespace of a test's own, with a typed client that sends protobuf, as client-go does by itself.
type cluster struct {
	*kubernetes.Clientset
	config    *rest.Config
	namespace string
	requests  *recorder
	ctx       context.Context
}

func open(t *testing.T) *cluster {
	t.Helper()
	t.Parallel()
	return openAlone(t)
}

// openAlone is for tests that change what other tests would notice.
func openAlone(t *testing.T) *cluster {
	t.Helper()
	configuration, requests := config(t), &recorder{}
	configuration.Wrap(requests.wrap)
	client, err := kubernetes.NewForConfig(configuration)
	ok(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	made, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "goclient-"}}, metav1.CreateOptions{})
	ok(t, err)
	t.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(ctx, made.Name, metav1.DeleteOptions{})
		cancel()
	})
	found := &cluster{client, configuration, made.Name, requests, ctx}
	found.until(t, "the namespace's service account", func() bool {
		_, err := client.CoreV1().ServiceAccounts(made.Name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	return found
}

// until asks again and again; for what no watch can be kept on.
func (c *cluster) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-deadline:
			t.Fatal("waited in vain for ", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c *cluster) configMap(t *testing.T, name string, labels map[string]string) *corev1.ConfigMap {
	t.Helper()
	made, err := c.CoreV1().ConfigMaps(c.namespace).Create(c.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	ok(t, err)
	return made
}

func (c *cluster) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	made, err := c.CoreV1().Pods(c.namespace).Create(c.ctx, pod(name), metav1.CreateOptions{})
	ok(t, err)
	return made
}

// pod is one for a scheduler that does not exist, so that a test alone decides what becomes of it.
func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			SchedulerName: "contract-tests",
			Containers:    []corev1.Container{{Name: "main", Image: "busybox", Command: []string{"sleep", "3600"}}},
		},
	}
}

// recorder notes the requests of a client, and may change them before they are sent.
type recorder struct {
	mutex sync.Mutex
	seen  []string
	edit  func(*http.Request)
	types []string
}

func (r *recorder) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		r.mutex.Lock()
		r.seen = append(r.seen, request.Method+" "+request.URL.RequestURI())
		r.types = append(r.types, request.Header.Get("Content-Type"))
		edit := r.edit
		r.mutex.Unlock()
		if edit != nil {
			request = request.Clone(request.Context())
			edit(request)
		}
		return next.RoundTrip(request)
	})
}

// matching lists the requests that hold all these texts.
func (r *recorder) matching(texts ...string) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var found []string
	for _, one := range r.seen {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(one, text)
		}
		if all {
			found = append(found, one)
		}
	}
	return found
}

func (r *recorder) editing(edit func(*http.Request)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.edit = edit
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same[V comparable](t *testing.T, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// refused insists on an error of this reason.
func refused(t *testing.T, err error, reason metav1.StatusReason) *metav1.Status {
	t.Helper()
	status, is := err.(apierrors.APIStatus)
	if !is || status.Status().Reason != reason {
		t.Fatalf("got %v, want an error of the reason %s", err, reason)
	}
	found := status.Status()
	return &found
}

// receive takes the next value of a channel.
func receive[V any](t *testing.T, what string, from <-chan V) V {
	t.Helper()
	select {
	case value, open := <-from:
		if !open {
			t.Fatal("ended before ", what)
		}
		return value
	case <-time.After(patience):
		t.Fatal("waited in vain for ", what)
		panic(fmt.Sprint("unreachable: ", what))
	}
}
