#include "repair_manager/manager/pages.h"

#include "common/proto/names.h"

namespace kintsugi::repair_manager {
namespace {

constexpr size_t kRepairsShown = 100;

std::string describe_repair(const RepairManager& repairs, const proto::RepairRecord& record) {
  const std::string destination =
      record.destination() == 0 ? "a client" : "server " + repairs.name_of(ServerId{record.destination()});
  return fmt::format("{}:{} -> {}  {} slice {}  {} attempt {}  {:.3f} s  {}  {}\n", record.stripe_id(),
                     record.index(), destination, proto::shape_name(record.shape()), record.slice_bytes(),
                     proto::outcome_name(record.outcome()), record.attempt(), record.timing().seconds(),
                     record.reason(), record.detail());
}

}  // namespace

std::string describe_repairs(const RepairManager& repairs) {
  const proto::RepairStatusResponse status = repairs.status();
  std::string text = fmt::format(
      "queued {}  delayed {}  unrepairable {}  done {}  failed {}  bytes {}\n\nrunning\n", status.queued(),
      status.delayed(), status.unrepairable(), status.done(), status.failed(), status.bytes_repaired());
  for (const proto::RepairRecord& record : status.running())
    text += describe_repair(repairs, record);
  text += "\nnewest first\n";
  for (const proto::RepairRecord& record : repairs.history(kRepairsShown))
    text += describe_repair(repairs, record);
  return text;
}

void add_repair_metrics(metrics::Metrics& metrics, const RepairManager& repairs) {
  const auto gauge = [&](const std::string& name, const std::string& help, size_t RepairCounts::* count) {
    metrics.gauge("kintsugi_" + name, help, {},
                  [&repairs, count] { return static_cast<double>(repairs.counts().*count); });
  };
  gauge("repairs_queued", "Chunks that wait for repair", &RepairCounts::queued);
  gauge("repairs_delayed", "Chunks whose server may return", &RepairCounts::delayed);
  gauge("repairs_running", "Repairs under way", &RepairCounts::running);
  gauge("chunks_unrepairable", "Chunks with too few others to rebuild them", &RepairCounts::unrepairable);
  const auto counter = [&](const std::string& name, const std::string& help, uint64_t RepairCounts::* count) {
    metrics.counter("kintsugi_" + name, help, {},
                    [&repairs, count] { return static_cast<double>(repairs.counts().*count); });
  };
  counter("repairs_done_total", "Repairs committed", &RepairCounts::done);
  counter("repairs_failed_total", "Attempts that failed", &RepairCounts::failed);
  counter("repaired_bytes_total", "Bytes of repaired chunks", &RepairCounts::bytes_repaired);
}

}  // namespace kintsugi::repair_manager
