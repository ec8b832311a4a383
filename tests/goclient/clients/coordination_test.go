package clients

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

func TestLeaderElection(t *testing.T) {
	c := open(t)
	leading := make(chan string, 10)
	stand := func(ctx context.Context, name string) <-chan struct{} {
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, c.namespace, "leader", c.CoreV1(), c.CoordinationV1(),
			resourcelock.ResourceLockConfig{Identity: name})
		ok(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, ReleaseOnCancel: true,
				LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 100 * time.Millisecond,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { leading <- name },
					OnStoppedLeading: func() {},
				},
			})
		}()
		return ended
	}
	first, resign := context.WithCancel(c.ctx)
	second, end := context.WithCancel(c.ctx)
	defer end()
	resigned := stand(first, "a")
	same(t, "first", receive(t, "a leader", leading), "a")
	stopped := stand(second, "b")
	c.until(t, "the second candidate to look", func() bool { return len(c.requests.matching("GET", "leases/leader")) > 1 })
	resign()
	<-resigned
	same(t, "second", receive(t, "its successor", leading), "b")
	lease, err := c.CoordinationV1().Leases(c.namespace).Get(c.ctx, "leader", metav1.GetOptions{})
	ok(t, err)
	same(t, "holder", *lease.Spec.HolderIdentity, "b")
	same(t, "transitions", *lease.Spec.LeaseTransitions, 1)
	end()
	<-stopped
}

func TestALeaseIsTakenByOne(t *testing.T) {
	c := open(t)
	leases := c.CoordinationV1().Leases(c.namespace)
	made, err := leases.Create(c.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	ok(t, err)
	outcomes := make(chan error, 8)
	for range cap(outcomes) {
		go func() {
			copied := made.DeepCopy()
			now := metav1.NowMicro()
			copied.Spec.RenewTime = &now
			_, err := leases.Update(c.ctx, copied, metav1.UpdateOptions{})
			outcomes <- err
		}()
	}
	won := 0
	for range cap(outcomes) {
		if err := <-outcomes; err == nil {
			won++
		} else if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	same(t, "updates of one version", won, 1)
}

func TestEventsOfTheCoreRecorder(t *testing.T) {
	c := open(t)
	about := c.pod(t, "web")
	broadcaster := record.NewBroadcaster(record.WithContext(c.ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.CoreV1().Events(c.namespace)})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "tests"})
	recorder.Event(about, corev1.EventTypeNormal, "Started", "it runs")
	recorder.Event(about, corev1.EventTypeNormal, "Started", "it runs")
	var found *corev1.EventList
	c.until(t, "the event to be counted", func() bool {
		listed, err := c.CoreV1().Events(c.namespace).SearchWithContext(c.ctx, scheme.Scheme, about)
		ok(t, err)
		found = listed
		return len(listed.Items) == 1 && listed.Items[0].Count == 2
	})
	same(t, "message", found.Items[0].Message, "it runs")
	same(t, "source", found.Items[0].Source.Component, "tests")
}

func TestEventsOfTheNewRecorder(t *testing.T) {
	c := open(t)
	about := c.pod(t, "web")
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.EventsV1()})
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	ok(t, broadcaster.StartRecordingToSinkWithContext(ctx))
	defer broadcaster.Shutdown()
	recorder := broadcaster.NewRecorder(scheme.Scheme, "tests.example.com/recorder")
	recorder.Eventf(about, nil, corev1.EventTypeNormal, "Started", "Starting", "it %s", "runs")
	var new eventsv1.Event
	c.until(t, "the event", func() bool {
		listed, err := c.EventsV1().Events(c.namespace).List(c.ctx, metav1.ListOptions{FieldSelector: "regarding.name=web"})
		ok(t, err)
		if len(listed.Items) == 1 {
			new = listed.Items[0]
		}
		return len(listed.Items) == 1
	})
	recorder.Eventf(about, nil, corev1.EventTypeNormal, "Started", "Starting", "it %s", "runs")
	c.until(t, "the series", func() bool {
		current, err := c.EventsV1().Events(c.namespace).Get(c.ctx, new.Name, metav1.GetOptions{})
		ok(t, err)
		return current.Series != nil && current.Series.Count == 2
	})
	old, err := c.CoreV1().Events(c.namespace).Get(c.ctx, new.Name, metav1.GetOptions{})
	ok(t, err)
	same(t, "message", old.Message, "it runs")
	same(t, "reporter", old.ReportingController, "tests.example.com/recorder")
	same(t, "series", old.Series.Count, 2)
}
