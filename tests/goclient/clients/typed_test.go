package clients

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
)

func TestTypedClientsSendProtobuf(t *testing.T) {
	c := open(t)
	c.configMap(t, "a", nil)
	if !slices.Contains(c.requests.types, "application/vnd.kubernetes.protobuf") {
		t.Fatal("no request was protobuf: ", c.requests.types)
	}
}

func TestPods(t *testing.T) {
	c := open(t)
	pods := c.CoreV1().Pods(c.namespace)
	wanted := pod("web")
	wanted.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	wanted.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
	wanted.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")}}}
	wanted.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	zero := int64(0)
	wanted.Spec.TerminationGracePeriodSeconds = &zero
	made, err := pods.Create(c.ctx, wanted, metav1.CreateOptions{})
	ok(t, err)
	container := made.Spec.Containers[0]
	same(t, "env", container.Env[0].Value, "1")
	same(t, "cpu", container.Resources.Requests.Cpu().String(), "250m")
	same(t, "port", container.LivenessProbe.HTTPGet.Port.StrVal, "http")
	same(t, "grace", *made.Spec.TerminationGracePeriodSeconds, 0)
	same(t, "policy", made.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	if made.Spec.Volumes[0].EmptyDir == nil {
		t.Fatal("the volume lost its source")
	}
	made.Labels["team"] = "blue"
	updated, err := pods.Update(c.ctx, made, metav1.UpdateOptions{})
	ok(t, err)
	same(t, "label", updated.Labels["team"], "blue")
	_, err = pods.Update(c.ctx, made, metav1.UpdateOptions{})
	refused(t, err, metav1.StatusReasonConflict)
	bound := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}
	ok(t, pods.Bind(c.ctx, bound, metav1.CreateOptions{}))
	current, err := pods.Get(c.ctx, "web", metav1.GetOptions{})
	ok(t, err)
	same(t, "node", current.Spec.NodeName, "node-1")
	current.Status.Phase = corev1.PodRunning
	current.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "busybox"}}
	running, err := pods.UpdateStatus(c.ctx, current, metav1.UpdateOptions{})
	ok(t, err)
	same(t, "phase", running.Status.Phase, corev1.PodRunning)
	same(t, "ready", running.Status.ContainerStatuses[0].Ready, false)
	ok(t, pods.Delete(c.ctx, "web", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(made.UID))}))
	_, err = pods.Get(c.ctx, "web", metav1.GetOptions{})
	refused(t, err, metav1.StatusReasonNotFound)
}

func TestPatches(t *testing.T) {
	c := open(t)
	c.pod(t, "web")
	patches := map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/labels/a","value":"json"}]`,
		types.MergePatchType:          `{"metadata":{"labels":{"a":"merge"}}}`,
		types.StrategicMergePatchType: `{"metadata":{"labels":{"a":"strategic"}},"spec":{"containers":[{"name":"main","image":"alpine"}]}}`,
	}
	for kind, patch := range patches {
		changed, err := c.CoreV1().Pods(c.namespace).Patch(c.ctx, "web", kind, []byte(patch), metav1.PatchOptions{})
		ok(t, err)
		if !strings.Contains(string(kind), changed.Labels["a"]) {
			t.Fatalf("%s left the label %q", kind, changed.Labels["a"])
		}
		same(t, "containers", len(changed.Spec.Containers), 1)
	}
}

func TestWritesOfManyKinds(t *testing.T) {
	c := open(t)
	options, meta := metav1.CreateOptions{}, metav1.ObjectMeta{Name: "a"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: pod("a").Spec}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	secret, err := c.CoreV1().Secrets(c.namespace).Create(c.ctx, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": {0, 255}}}, options)
	ok(t, err)
	same(t, "secret", string(secret.Data["k"]), "\x00\xff")
	service, err := c.CoreV1().Services(c.namespace).Create(c.ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}}}, options)
	ok(t, err)
	same(t, "port", service.Spec.Ports[0].TargetPort.IntVal, 8080)
	zero := int32(0)
	deployment, err := c.AppsV1().Deployments(c.namespace).Create(c.ctx, &appsv1.Deployment{ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{Replicas: &zero, Selector: selector, Template: template}}, options)
	ok(t, err)
	same(t, "replicas", *deployment.Spec.Replicas, 0)
	suspended := true
	jobTemplate := *template.DeepCopy()
	jobTemplate.Labels, jobTemplate.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
	job, err := c.BatchV1().Jobs(c.namespace).Create(c.ctx, &batchv1.Job{ObjectMeta: meta,
		Spec: batchv1.JobSpec{Suspend: &suspended, Template: jobTemplate}}, options)
	ok(t, err)
	same(t, "suspend", *job.Spec.Suspend, true)
	budget, err := c.PolicyV1().PodDisruptionBudgets(c.namespace).Create(c.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: meta,
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &intstr.IntOrString{Type: intstr.String, StrVal: "50%"}, Selector: selector}}, options)
	ok(t, err)
	same(t, "minAvailable", budget.Spec.MinAvailable.StrVal, "50%")
	role, err := c.RbacV1().Roles(c.namespace).Create(c.ctx, &rbacv1.Role{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}, options)
	ok(t, err)
	same(t, "rule", role.Rules[0].Resources[0], "pods")
	class, err := c.SchedulingV1().PriorityClasses().Create(c.ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace}, Value: 7}, options)
	ok(t, err)
	same(t, "priority", class.Value, 7)
	ok(t, c.SchedulingV1().PriorityClasses().Delete(c.ctx, class.Name, metav1.DeleteOptions{}))
	claim, err := c.CoreV1().PersistentVolumeClaims(c.namespace).Create(c.ctx, &corev1.PersistentVolumeClaim{ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}, options)
	ok(t, err)
	same(t, "storage", claim.Spec.Resources.Requests.Storage().String(), "1Gi")
}

func TestScale(t *testing.T) {
	c := open(t)
	zero := int32(0)
	labels := map[string]string{"app": "a"}
	sets := c.AppsV1().ReplicaSets(c.namespace)
	_, err := sets.Create(c.ctx, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &zero, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("a").Spec}}}, metav1.CreateOptions{})
	ok(t, err)
	ok(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		scale, err := sets.GetScale(c.ctx, "a", metav1.GetOptions{})
		ok(t, err)
		same(t, "selector", scale.Status.Selector, "app=a")
		scale.Spec.Replicas = 2
		changed, err := sets.UpdateScale(c.ctx, "a", scale, metav1.UpdateOptions{})
		if err == nil {
			same(t, "replicas", changed.Spec.Replicas, 2)
		}
		return err
	}))
}

func TestEviction(t *testing.T) {
	c := open(t)
	c.pod(t, "web")
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: c.namespace}}
	ok(t, c.PolicyV1().Evictions(c.namespace).Evict(c.ctx, eviction))
	_, err := c.CoreV1().Pods(c.namespace).Get(c.ctx, "web", metav1.GetOptions{})
	refused(t, err, metav1.StatusReasonNotFound)
}

func TestDeleteCollection(t *testing.T) {
	c := open(t)
	for _, name := range []string{"a", "b", "c"} {
		c.configMap(t, name, map[string]string{"keep": map[bool]string{true: "yes", false: "no"}[name == "c"]})
	}
	maps := c.CoreV1().ConfigMaps(c.namespace)
	selected := metav1.ListOptions{LabelSelector: "keep=no"}
	ok(t, maps.DeleteCollection(c.ctx, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, selected))
	listed, err := maps.List(c.ctx, selected)
	ok(t, err)
	same(t, "after a dry run", len(listed.Items), 2)
	ok(t, maps.DeleteCollection(c.ctx, metav1.DeleteOptions{}, selected))
	listed, err = maps.List(c.ctx, metav1.ListOptions{LabelSelector: "keep"})
	ok(t, err)
	same(t, "left", len(listed.Items), 1)
}

func TestErrorsAreOnesThatClientsKnow(t *testing.T) {
	c := open(t)
	maps := c.CoreV1().ConfigMaps(c.namespace)
	made := c.configMap(t, "a", nil)
	_, err := maps.Create(c.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	refused(t, err, metav1.StatusReasonAlreadyExists)
	_, err = maps.Create(c.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "Bad_Name"}}, metav1.CreateOptions{})
	same(t, "field", refused(t, err, metav1.StatusReasonInvalid).Details.Causes[0].Field, "metadata.name")
	err = maps.Delete(c.ctx, "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")})
	refused(t, err, metav1.StatusReasonConflict)
	made.ResourceVersion = "1"
	_, err = maps.Update(c.ctx, made, metav1.UpdateOptions{})
	if !apierrors.IsConflict(err) {
		t.Fatal("an update of an old version: ", err)
	}
}

func TestReviews(t *testing.T) {
	c := open(t)
	review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(c.ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: c.namespace, Verb: "create", Resource: "pods"}}}, metav1.CreateOptions{})
	ok(t, err)
	same(t, "allowed", review.Status.Allowed, true)
	same(t, "asked", review.Spec.ResourceAttributes.Verb, "create")
}
