package aws

import (
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
)

// The SDK finds the region by the instance metadata service.
func TestRegionOfTheInstance(t *testing.T) {
	f := serve(t, func(c *Config) { c.Listen.Metadata = "127.0.0.1:0" })
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://"+f.Metadata)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "")
	loaded, err := config.LoadDefaultConfig(t.Context(), config.WithEC2IMDSRegion())
	f.must(err)
	f.expect("region", loaded.Region, region)
	for path, wanted := range map[string]int{
		"/latest/meta-data/placement/region":          http.StatusUnauthorized,
		"/latest/dynamic/instance-identity/document":  http.StatusUnauthorized,
		"/latest/meta-data/iam/security-credentials/": http.StatusNotFound,
	} {
		response, err := http.Get("http://" + f.Metadata + path)
		f.must(err)
		response.Body.Close()
		f.expect(path+" without a token", response.StatusCode, wanted)
	}
	ask := func(method, path, header, value string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.Metadata+path, nil)
		f.must(err)
		r.Header.Set(header, value)
		response, err := http.DefaultClient.Do(r)
		f.must(err)
		defer response.Body.Close()
		text := make([]byte, 256)
		n, _ := response.Body.Read(text)
		return response.StatusCode, string(text[:n])
	}
	status, _ := ask("PUT", "/latest/api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21601")
	f.expect("a token for longer than 6 hours", status, http.StatusBadRequest)
	_, token := ask("PUT", "/latest/api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
	_, text := ask("GET", "/latest/meta-data/placement/region", "X-Aws-Ec2-Metadata-Token", token)
	f.expect("region", text, region)
	_, text = ask("GET", "/latest/meta-data/placement/availability-zone", "X-Aws-Ec2-Metadata-Token", token)
	f.expect("zone", text, zoneA)
}
