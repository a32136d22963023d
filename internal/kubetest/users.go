package kubetest

import (
	"cmp"
	"context"

	authv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// KubeconfigFor writes a kubeconfig for a user in groups, known by a certificate, and returns its path. What the user may do is what
// RBAC says: nothing, until a test binds it to a role.
func (e *Env) KubeconfigFor(user string, groups ...string) string {
	e.t.Helper()
	cert, key, err := e.ca.issue(user, groups)
	if err != nil {
		e.t.Fatal(err)
	}
	return e.kubeconfig(fileName(e.Dir, user, ".kubeconfig"), e.url, &api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
}

// KubeconfigForServiceAccount writes a kubeconfig with a token of this service account, which is made where there is none.
func (e *Env) KubeconfigForServiceAccount(namespace, name string) string {
	e.t.Helper()
	return e.serviceAccount(namespace, name, e.url)
}

// KubeconfigForElector is that of the service account "elector", which may do what client-go's electors need; it leads to url, where one is
// named.
func (e *Env) KubeconfigForElector(namespace, url string) string {
	e.t.Helper()
	const name = "elector"
	file := e.serviceAccount(namespace, name, cmp.Or(url, e.url))
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	as := metav1.ObjectMeta{Name: name}
	_, err := e.Client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: as,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}}}}, metav1.CreateOptions{})
	if err == nil {
		_, err = e.Client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: as,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}}}, metav1.CreateOptions{})
	}
	if err != nil {
		e.t.Fatalf("let %s elect: %v", name, err)
	}
	return file
}

func (e *Env) serviceAccount(namespace, name, url string) string {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	if err := e.account(ctx, namespace, name); err != nil {
		e.t.Fatalf("make service account %s: %v", name, err)
	}
	r, err := e.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		e.t.Fatalf("ask for a token of service account %s: %v", name, err)
	}
	return e.kubeconfig(fileName(e.Dir, namespace+"_"+name, ".kubeconfig"), url, &api.AuthInfo{Token: r.Status.Token})
}

// ServingFiles are the certificate of the API server, its key, and its authority's certificate, for what stands before it.
func (e *Env) ServingFiles() (cert, key, ca string) {
	return fileName(e.Dir, "kube-apiserver", ".crt"), fileName(e.Dir, "kube-apiserver", ".key"), e.ca.file
}

func (e *Env) kubeconfig(path, url string, user *api.AuthInfo) string {
	e.t.Helper()
	c := api.NewConfig()
	c.Clusters["kubetest"] = &api.Cluster{Server: url, CertificateAuthorityData: e.ca.pem}
	c.AuthInfos["user"] = user
	c.Contexts["kubetest"] = &api.Context{Cluster: "kubetest", AuthInfo: "user"}
	c.CurrentContext = "kubetest"
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		e.t.Fatal(err)
	}
	return path
}
