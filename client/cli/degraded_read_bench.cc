// bench degraded-read: one chunk's range, read as if the chunk were lost, with this client as the repair site.
#include <algorithm>

#include "client/cli/bench_io.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/session.h"
#include "common/proto/names.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using client::DegradedReadReport;

constexpr uint64_t kMostRuns = 10000;

/// A shape of trees; none stands for the traditional read, in which this client fetches chunks and decodes them itself.
using Shape = std::optional<proto::RepairShape>;

std::string_view shape_text(Shape shape) {
  return shape ? proto::shape_name(*shape) : "local";
}

struct Arguments {
  ChunkId chunk;
  Shape shape = proto::RepairShape::AUTO;
  uint64_t offset = 0, length = 0, slice_bytes = 0;
  uint32_t runs = 1;
};

double megabytes_per_second(const DegradedReadReport& report) {
  return report.seconds > 0 ? static_cast<double>(report.bytes) / report.seconds / 1e6 : 0;
}

Json json_of(const DegradedReadReport& report) {
  return {{"seconds", report.seconds},
          {"first_byte_seconds", report.first_byte_seconds},
          {"plan_seconds", report.plan_seconds},
          {"network_seconds", report.network_seconds},
          {"compute_seconds", report.compute_seconds},
          {"bytes", report.bytes},
          {"bytes_in", report.bytes_in},
          {"megabytes_per_second", megabytes_per_second(report)},
          {"shape", shape_text(report.shape)},
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
      shape_text(report.shape), report.helpers, human_bytes(report.slice_bytes), human_bytes(report.bytes_in),
      report.trouble.empty() ? "" : "; " + report.trouble);
}

double median_seconds(const std::vector<DegradedReadReport>& reports) {
  std::vector<double> seconds;
  for (const DegradedReadReport& report : reports)
    seconds.push_back(report.seconds);
  std::sort(seconds.begin(), seconds.end());
  return seconds[(seconds.size() - 1) / 2];
}

Status run(Session& session, BlockingClient& client, const Arguments& arguments) {
  const ChunkId chunk = arguments.chunk;
  std::vector<DegradedReadReport> reports;
  for (uint32_t i = 0; i < arguments.runs; ++i) {
    NullSink sink;
    client::LostReadOptions options;
    options.offset = arguments.offset;
    options.length = arguments.length;
    options.shape = arguments.shape;
    options.slice_bytes = arguments.slice_bytes;
    options.fall_back = false;  // a read that fell back would count as a degraded read
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
      runs.push_back(json_of(report));
    print_json({{"bench", "degraded-read"},
                {"chunk", fmt::format("{}", chunk)},
                {"offset", arguments.offset},
                {"bytes", bytes},
                {"shape", shape_text(arguments.shape)},
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

Command degraded_read_bench() {
  const auto a = std::make_shared<Arguments>();
  return {
      .name = "degraded-read",
      .help = "Read a chunk's range as if the chunk were lost; a whole chunk is checked against its CRC",
      .options =
          {{"--chunk", &a->chunk, "The chunk to treat as missing", kRequired},
           {"--offset", Bytes{&a->offset}, "Where the range begins in the chunk; default: 0"},
           {"--length", Bytes{&a->length}, "Bytes to read; default: to the chunk's end"},
           {.names = "--shape",
            .target = one_of(&a->shape,
                             {proto::RepairShape::STAR, proto::RepairShape::PPR, proto::RepairShape::CHAIN,
                              proto::RepairShape::WEIGHTED, proto::RepairShape::AUTO, Shape()},
                             shape_text),
            .help =
                "Shape of the tree; local: fetch what the code needs here and decode, the traditional way. "
                "Default: auto"},
           {"--slice", Bytes{&a->slice_bytes}, "Bytes of a slice; the chunk size means unsliced"},
           {.names = "--runs",
            .target = &a->runs,
            .help = "How many, one after the other; default: 1",
            .least = 1,
            .most = kMostRuns}},
      .prints_json = true,
      .run = connected(a, run)};
}

}  // namespace kintsugi::cli
