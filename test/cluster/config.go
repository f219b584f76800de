package cluster

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

//go:embed config
var configFiles embed.FS

// writeConfig renders one of the files in ./config into dir and returns where
// it is.
func writeConfig(dir, name string, values any) (string, error) {
	parsed, err := template.New(name).Option("missingkey=error").ParseFS(configFiles, "config/"+name)
	if err != nil {
		return "", fmt.Errorf("configuration %s: %w", name, err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, values); err != nil {
		return "", fmt.Errorf("configuration %s: %w", name, err)
	}
	return writeFile(dir, name, text.String())
}

// writeKubeconfig writes a kubeconfig for the user that the authority has
// issued a certificate to under that name. It trusts the next authority too.
func writeKubeconfig(path, server string, ca *authority, name string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["local"] = &clientcmdapi.Cluster{Server: server}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{}
	config.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: name}
	config.CurrentContext = "local"
	for _, part := range []struct {
		file string
		data *[]byte
	}{
		{ca.certificateFile("ca"), &config.Clusters["local"].CertificateAuthorityData},
		{ca.certificateFile(nextAuthority), &config.Clusters["local"].CertificateAuthorityData},
		{ca.certificateFile(name), &config.AuthInfos[name].ClientCertificateData},
		{ca.keyFile(name), &config.AuthInfos[name].ClientKeyData},
	} {
		content, err := os.ReadFile(part.file)
		if err != nil {
			return err
		}
		*part.data = append(*part.data, content...)
	}
	return clientcmd.WriteToFile(*config, path)
}

func writeFile(dir, name, text string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}
