// Names of erasure policies: people type them, clients send them.
#include "erasure/policy.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using erasure::Policy;

constexpr size_t kMaxErrorBytes = 300;

std::vector<std::string> seeds() {
  return {"rs-6-3-1024k",        "rs-1-2-1024k",      "rs-31-1-64k",      "rs-6-0-8192k",
          "replication-3-1024k", "replication-1-64k", "lrc-12-2-2-1024k", "lrc-16-8-1-64k",
          "lrc-26-2-2-8192k",    "rrs-12-4-1024k",    "rrs-2-2-256k",     "rs-06-3-1024k"};
}

void check(std::string_view input) {
  const auto policy = Policy::parse(input);
  if (!policy) {
    require(policy.error().code() == Code::kInvalidArgument, "what is no policy is an invalid argument");
    require_one_line(policy.error().message());
    require(policy.error().message().size() <= kMaxErrorBytes, "an error quotes little of what came");
    return;
  }
  require(policy->k >= 1 && policy->chunks() <= erasure::kMaxChunks, "a stripe has 1 to kMaxChunks chunks");
  require(policy->cell_bytes > 0 && policy->cell_bytes <= policy->max_cell_bytes(), "a cell has a limit");
  require(policy->cell_bytes % (policy->rows() * erasure::kCellGranularityBytes) == 0,
          "sub-cells are whole blocks");
  require(policy->tolerated() <= policy->m, "no more losses are survived than there are parities");
  const auto again = Policy::parse(policy->name());
  require(again && *again == *policy, "the name of a policy is parsed to the same policy");
  require(policy->name() == input || input.starts_with("rs-1-"), "a policy has one name");
  const Policy copies = policy->as_copies();
  const auto copies_again = Policy::parse(copies.name());
  require(copies_again && *copies_again == copies, "the copies of a policy are a policy");
}

const Registration registration{{"policy", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
