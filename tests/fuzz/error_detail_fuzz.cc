// Errors from other daemons, whose texts may quote anything.
#include "common/rpc/error_frame.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

constexpr size_t kMaxErrorBytes = 4096;

/// A code and a culprit; the message, or what pretends to be a serialised one, follows.
struct Fields {
  uint64_t server = 7, stripe = 81;
  uint32_t index = 3;
  uint32_t code = static_cast<uint32_t>(Code::kCorrupt);
};

std::string bytes_of(const Fields& fields, std::string_view rest) {
  return std::string(reinterpret_cast<const char*>(&fields), sizeof fields).append(rest);
}

std::vector<std::string> seeds() {
  const Status status = Status{Code::kCorrupt, "block 12: checksum mismatch"}.blame(ServerId{7});
  return {bytes_of({}, rpc::encode_error(status).SerializeAsString()),
          bytes_of({.server = 0}, "/caf\xc3\xa9: no such file"), bytes_of({}, "\xff\xfe is no text"),
          bytes_of({.index = UINT32_MAX, .code = 16}, std::string(kMaxErrorBytes - 1, 'x') + "\xe2\x82\xac"),
          bytes_of({.stripe = 0}, std::string(kMaxErrorBytes + 100, '\xbf'))};
}

Status sent(const Status& status) {
  const std::string bytes = rpc::encode_error(status).SerializeAsString();
  return rpc::decode_error(status.code(), std::as_bytes(std::span(bytes)));
}

void check(std::string_view input) {
  Input in(input);
  const auto fields = in.number<Fields>();
  const std::string_view rest = in.rest();
  const Code code = static_cast<Code>(1 + fields.code % static_cast<uint32_t>(kLastCode));

  const Status received = rpc::decode_error(code, std::as_bytes(std::span(rest)));
  require(received.code() == code, "an error's code does not depend on its text");
  if (received.message().size() <= kMaxErrorBytes)
    require(sent(received) == received, "an error is passed on as it came");

  Culprit culprit{.server = ServerId{fields.server}, .chunk = {}};
  if (culprit) culprit.chunk = {StripeId{fields.stripe}, fields.index};
  const Status raised = Status{code, std::string(rest)}.blame(culprit);
  const Status arrived = sent(raised);
  require(arrived.code() == code && arrived.culprit() == culprit,
          "an error names its culprit, whatever its text");
  require(arrived.message().size() <= kMaxErrorBytes, "an error's text has a limit");
  // Texts of printable ASCII arrive as they are.
  if (std::all_of(rest.begin(), rest.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
    require(arrived.message() == rest.substr(0, kMaxErrorBytes), "an error's text arrives");
  }
  require(sent(arrived) == arrived, "an error is passed on as it came");
}

const Registration registration{{"error_detail", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
