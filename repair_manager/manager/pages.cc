#include "repair_manager/manager/pages.h"

#include "common/proto/names.h"

namespace kintsugi::repair_manager {
namespace {

constexpr size_t kRepairsShown = 100;

std::string describe_repair(const proto::RepairRecord& record) {
  return fmt::format("{}:{} -> server {}  {} slice {}  {} attempt {}  {:.3f} s  {}  {}\n", record.stripe_id(),
                     record.index(), record.destination(), proto::shape_name(record.shape()),
                     record.slice_bytes(), proto::outcome_name(record.outcome()), record.attempt(),
                     record.timing().seconds(), record.reason(), record.detail());
}

}  // namespace

std::string describe_repairs(const RepairManager& repairs) {
  const proto::RepairStatusResponse status = repairs.status();
  std::string text = fmt::format(
      "queued {}  delayed {}  unrepairable {}  done {}  failed {}  bytes {}\n\nrunning\n", status.queued(),
      status.delayed(), status.unrepairable(), status.done(), status.failed(), status.bytes_repaired());
  for (const proto::RepairRecord& record : status.running())
    text += describe_repair(record);
  text += "\nnewest first\n";
  for (const proto::RepairRecord& record : repairs.history(kRepairsShown))
    text += describe_repair(record);
  return text;
}

void add_repair_metrics(metrics::Metrics& metrics, const RepairManager& repairs) {
  const auto gauge = [&](const std::string& name, const std::string& help, auto read) {
    metrics.gauge("kintsugi_" + name, help, {},
                  [&repairs, read] { return static_cast<double>(read(repairs.status())); });
  };
  using Status = proto::RepairStatusResponse;
  gauge("repairs_queued", "Chunks that wait for repair", [](const Status& s) { return s.queued(); });
  gauge("repairs_delayed", "Chunks whose server may return", [](const Status& s) { return s.delayed(); });
  gauge("repairs_running", "Repairs under way", [](const Status& s) { return s.running_size(); });
  gauge("chunks_unrepairable", "Chunks with too few others to rebuild them",
        [](const Status& s) { return s.unrepairable(); });
  const auto counter = [&](const std::string& name, const std::string& help, auto read) {
    metrics.counter("kintsugi_" + name, help, {},
                    [&repairs, read] { return static_cast<double>(read(repairs.status())); });
  };
  counter("repairs_done_total", "Repairs committed", [](const Status& s) { return s.done(); });
  counter("repairs_failed_total", "Attempts that failed", [](const Status& s) { return s.failed(); });
  counter("repaired_bytes_total", "Bytes of repaired chunks",
          [](const Status& s) { return s.bytes_repaired(); });
}

}  // namespace kintsugi::repair_manager
