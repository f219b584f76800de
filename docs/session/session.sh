# Two pods of nginx run on each of three nodes behind a load balancer.
kubectl get ids nginx
# A change of the template: what would it do, and how long would it take?
sed 's/value: "1"/value: "2"/' nginx.yaml > new.yaml
kubectl ids plan nginx -f new.yaml
# Begin it, and watch.
kubectl apply -f new.yaml
kubectl ids status nginx --watch
# And back again.
kubectl ids rollout undo nginx
kubectl ids rollout status nginx
kubectl ids rollout history nginx
