package clients

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

func TestServerSideApply(t *testing.T) {
	c := open(t)
	maps := c.CoreV1().ConfigMaps(c.namespace)
	ours := applycorev1.ConfigMap("a", c.namespace).WithData(map[string]string{"k": "1", "ours": "yes"})
	made, err := maps.Apply(c.ctx, ours, metav1.ApplyOptions{FieldManager: "ours"})
	ok(t, err)
	same(t, "manager", made.ManagedFields[0].Manager, "ours")
	same(t, "operation", made.ManagedFields[0].Operation, metav1.ManagedFieldsOperationApply)
	theirs := applycorev1.ConfigMap("a", c.namespace).WithData(map[string]string{"k": "2"})
	_, err = maps.Apply(c.ctx, theirs, metav1.ApplyOptions{FieldManager: "theirs"})
	causes := refused(t, err, metav1.StatusReasonConflict).Details.Causes
	same(t, "cause", causes[0].Type, metav1.CauseTypeFieldManagerConflict)
	same(t, "field", causes[0].Field, ".data.k")
	taken, err := maps.Apply(c.ctx, theirs, metav1.ApplyOptions{FieldManager: "theirs", Force: true})
	ok(t, err)
	same(t, "value", taken.Data["k"], "2")
	left, err := maps.Apply(c.ctx, applycorev1.ConfigMap("a", c.namespace), metav1.ApplyOptions{FieldManager: "ours"})
	ok(t, err)
	_, kept := left.Data["ours"]
	same(t, "what nobody applies any more is kept", kept, false)
	extracted, err := applycorev1.ExtractConfigMap(left, "theirs")
	ok(t, err)
	same(t, "extracted", extracted.Data["k"], "2")
}

func TestApplyingAStatus(t *testing.T) {
	c := open(t)
	c.pod(t, "web")
	status := applycorev1.Pod("web", c.namespace).WithStatus(applycorev1.PodStatus().WithConditions(
		applycorev1.PodCondition().WithType("example.com/Ready").WithStatus("True")))
	changed, err := c.CoreV1().Pods(c.namespace).ApplyStatus(c.ctx, status, metav1.ApplyOptions{FieldManager: "tests", Force: true})
	ok(t, err)
	found := false
	for _, condition := range changed.Status.Conditions {
		found = found || condition.Type == "example.com/Ready"
	}
	same(t, "condition", found, true)
}
