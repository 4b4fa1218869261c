#include "metaserver/daemon/maintenance_metric.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

namespace kintsugi::metaserver {
namespace {

class MaintenanceCollectable final : public prometheus::Collectable {
 public:
  explicit MaintenanceCollectable(const ServerRegistry& servers) : servers_(servers) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    prometheus::MetricFamily family{"kintsugi_maintenance_seconds",
                                    "Rest of the time for which a chunkserver is in maintenance.",
                                    prometheus::MetricType::Gauge,
                                    {}};
    for (const auto& [id, server] : servers_.servers()) {
      const Duration left = servers_.maintenance_left(server);
      if (left <= Duration::zero()) continue;
      prometheus::ClientMetric metric;
      metric.label = {{"chunkserver", servers_.name_of(id)}};
      metric.gauge.value = to_seconds(left);
      family.metric.push_back(std::move(metric));
    }
    return {std::move(family)};
  }

 private:
  const ServerRegistry& servers_;
};

}  // namespace

std::shared_ptr<prometheus::Collectable> maintenance_metric(const ServerRegistry& servers) {
  return std::make_shared<MaintenanceCollectable>(servers);
}

}  // namespace kintsugi::metaserver
