// bench degraded-read: one chunk's range, read as if the chunk were lost, with this client as the repair
// site.
#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "common/proto/names.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using client::DegradedReadReport;
using Json = nlohmann::ordered_json;

/// What `--shape` calls the traditional read: this client fetches chunks and decodes them itself.
constexpr const char* kLocal = "local";

struct Arguments {
  std::string chunk, shape = "auto";
  uint64_t offset = 0, length = 0, slice_bytes = 0;
  uint32_t runs = 1;
};

class NullSink final : public client::Sink {
 public:
  asio::awaitable<Status> write(uint64_t, std::span<const std::span<const std::byte>>) override {
    co_return Status{};
  }
};

Result<std::optional<proto::RepairShape>> parse_tree(const std::string& shape) {
  if (shape == kLocal) return std::optional<proto::RepairShape>{};
  KINTSUGI_ASSIGN(const proto::RepairShape tree, proto::parse_shape(shape));
  return std::optional{tree};
}

std::string_view shape_text(const DegradedReadReport& report) {
  return report.shape ? proto::shape_name(*report.shape) : kLocal;
}

double megabytes_per_second(const DegradedReadReport& report) {
  return report.seconds > 0 ? static_cast<double>(report.bytes) / report.seconds / 1e6 : 0;
}

Json to_json(const DegradedReadReport& report) {
  return {{"seconds", report.seconds},
          {"first_byte_seconds", report.first_byte_seconds},
          {"plan_seconds", report.plan_seconds},
          {"network_seconds", report.network_seconds},
          {"compute_seconds", report.compute_seconds},
          {"bytes", report.bytes},
          {"bytes_in", report.bytes_in},
          {"megabytes_per_second", megabytes_per_second(report)},
          {"shape", shape_text(report)},
          {"slice_bytes", report.slice_bytes},
          {"helpers", report.helpers},
          {"plans", report.plans},
          {"trouble", report.trouble}};
}

void print(const DegradedReadReport& report) {
  fmt::print(
      "{:.3f} s, {:.1f} MB/s, first byte after {:.3f} s, plan {:.4f} s; {}, {} helpers, slices of {}, {} "
      "in{}\n",
      report.seconds, megabytes_per_second(report), report.first_byte_seconds, report.plan_seconds,
      shape_text(report), report.helpers, human_bytes(report.slice_bytes), human_bytes(report.bytes_in),
      report.trouble.empty() ? "" : "; " + report.trouble);
}

double median_seconds(const std::vector<DegradedReadReport>& reports) {
  std::vector<double> seconds;
  for (const DegradedReadReport& report : reports)
    seconds.push_back(report.seconds);
  std::sort(seconds.begin(), seconds.end());
  return seconds[(seconds.size() - 1) / 2];
}

Status run(Session& session, BlockingClient& client, ChunkId chunk, const Arguments& arguments) {
  std::vector<DegradedReadReport> reports;
  for (uint32_t i = 0; i < arguments.runs; ++i) {
    NullSink sink;
    client::LostReadOptions options;
    options.offset = arguments.offset;
    options.length = arguments.length;
    KINTSUGI_ASSIGN(options.shape, parse_tree(arguments.shape));
    options.slice_bytes = arguments.slice_bytes;
    options.fall_back = false;  // what is measured is what was asked for
    KINTSUGI_ASSIGN(DegradedReadReport report,
                    client.run(client.async().read_lost_chunk(chunk.stripe.value, chunk.index, sink,
                                                              std::move(options))));
    if (!session.json) print(report);
    reports.push_back(std::move(report));
  }
  const uint64_t bytes = reports.front().bytes;
  const double median = median_seconds(reports);
  if (session.json) {
    Json runs = Json::array();
    for (const DegradedReadReport& report : reports)
      runs.push_back(to_json(report));
    print_json({{"bench", "degraded-read"},
                {"chunk", arguments.chunk},
                {"offset", arguments.offset},
                {"bytes", bytes},
                {"shape", arguments.shape},
                {"median_seconds", median},
                {"median_megabytes_per_second", median > 0 ? static_cast<double>(bytes) / median / 1e6 : 0},
                {"runs", std::move(runs)}});
  } else if (reports.size() > 1) {
    fmt::print("degraded-read: {} in {}, median of {}\n", human_bytes(bytes), rate_text(bytes, median),
               reports.size());
  }
  return {};
}

}  // namespace

void add_degraded_read_bench(CLI::App& bench, Session& session) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(
      "degraded-read",
      "Read a chunk's range as if the chunk were lost; a whole chunk is checked against its CRC");
  command->add_option("--chunk", arguments->chunk, "STRIPE:INDEX")->required();
  command->add_option("--offset", arguments->offset, "In the chunk; default 0")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--length", arguments->length, "Default: to the chunk's end")
      ->transform(CLI::AsSizeValue(false));
  command
      ->add_option(
          "--shape", arguments->shape,
          "Of the tree; local: fetch what the code needs here and decode, the traditional way. Default: auto")
      ->check(CLI::IsMember({"star", "ppr", "chain", "weighted", "auto", kLocal}));
  command->add_option("--slice", arguments->slice_bytes, "As in 512KiB; the chunk size means unsliced")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--runs", arguments->runs, "One after the other; default 1")
      ->check(CLI::Range(1, 10000));
  command->add_flag("--json", session.json, "Print one JSON document");
  command->callback([&session, arguments] {
    const auto chunk = parse_chunk(arguments->chunk);
    if (!chunk) throw CLI::ValidationError("--chunk", chunk.error().message());
    session.choose("bench degraded-read", [&session, arguments, id = *chunk]() -> Status {
      KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
      return run(session, *client, id, *arguments);
    });
  });
}

}  // namespace kintsugi::cli
