#include "monitoring/daemon/mount_metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include "monitoring/daemon/mounts.h"

namespace kintsugi::monitoring {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Operations = proto::SightMount::Operations;

class MountCollectable final : public prometheus::Collectable {
 public:
  explicit MountCollectable(const Monitor& monitor) : monitor_(monitor) {}

  std::vector<MetricFamily> Collect() const override {
    const model::Snapshot snapshot = monitor_.snapshot();
    const std::vector<const model::ProcessView*> mounts = mounts_of(snapshot);
    std::vector<MetricFamily> families;
    const auto of_mount = [&](const char* name, const char* help, MetricType type, auto value) {
      MetricFamily family{name, help, type, {}};
      for (const model::ProcessView* view : mounts)
        family.metric.push_back(metric_of(*view, type, static_cast<double>(value(view->last().mount()))));
      families.push_back(std::move(family));
    };
    const auto of_operations = [&](const char* name, const char* help, auto value) {
      MetricFamily family{name, help, MetricType::Counter, {}};
      for (const model::ProcessView* view : mounts)
        for (const Operations& operations : view->last().mount().operations()) {
          family.metric.push_back(metric_of(*view, MetricType::Counter, value(operations)));
          family.metric.back().label.push_back({"operation", operations.kind()});
        }
      families.push_back(std::move(family));
    };
    of_operations("kintsugi_mount_requests_total", "Requests of a mount's kernel that have ended, by kind.",
                  [](const Operations& of) { return static_cast<double>(of.requests()); });
    of_operations("kintsugi_mount_request_errors_total",
                  "Those that were answered with an error of any kind, also \"no such file\".",
                  [](const Operations& of) { return static_cast<double>(of.errors()); });
    of_operations("kintsugi_mount_request_seconds_total", "Time that these requests took.",
                  [](const Operations& of) { return static_cast<double>(of.ns()) / 1e9; });
    of_mount("kintsugi_mount_read_bytes_total",
             "Bytes that applications read, without what their kernel had.", MetricType::Counter,
             [](const proto::SightMount& mount) { return mount.read_bytes(); });
    of_mount("kintsugi_mount_fetched_bytes_total",
             "Of the bytes read, those that were not in the mount's memory.", MetricType::Counter,
             [](const proto::SightMount& mount) { return mount.fetched_bytes(); });
    of_mount("kintsugi_mount_written_bytes_total", "Bytes that applications wrote.", MetricType::Counter,
             [](const proto::SightMount& mount) { return mount.written_bytes(); });
    of_mount("kintsugi_mount_dirty_bytes", "Memory of a mount that holds what is not written out yet.",
             MetricType::Gauge, [](const proto::SightMount& mount) { return mount.dirty_bytes(); });
    of_mount("kintsugi_mount_room_waits_total", "How often a write waited for such memory.",
             MetricType::Counter, [](const proto::SightMount& mount) { return mount.room_waits(); });
    return families;
  }

 private:
  static ClientMetric metric_of(const model::ProcessView& view, MetricType type, double value) {
    ClientMetric metric;
    metric.label = {{"host", view.last().host()}, {"mount", view.last().mount().directory()}};
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    return metric;
  }

  const Monitor& monitor_;
};

}  // namespace

std::shared_ptr<prometheus::Collectable> mount_metrics(const Monitor& monitor) {
  return std::make_shared<MountCollectable>(monitor);
}

}  // namespace kintsugi::monitoring
