#include "metaserver/repair/compactions.h"

#include <gtest/gtest.h>

#include "tests/metaserver/namespace_rig.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::metaserver {
namespace {

struct Notes {
  simulation::Simulation simulation{1};
  Compactions compactions{simulation.clock()};
  void pass(Duration time) { simulation.run_for(time); }
  std::vector<InodeId> take() {
    return compactions.take([](InodeId) { return true; }, 10);
  }
};

TEST(Compactions, WaitUntilAFileOfManySmallWritesIsQuiet) {
  Notes notes;
  notes.compactions.wrote(InodeId{5}, Compactions::kSmallExtents - 1, false);
  notes.pass(2min);
  EXPECT_TRUE(notes.take().empty()) << "it is not worth the work yet";
  notes.compactions.wrote(InodeId{5}, 1, false);
  EXPECT_TRUE(notes.take().empty()) << "it was written to just now";
  notes.pass(Compactions::kQuiet);
  EXPECT_EQ(notes.take(), std::vector{InodeId{5}});
  EXPECT_TRUE(notes.take().empty()) << "it was handed out";
}

TEST(Compactions, ComeEvenToAFileThatIsNeverQuiet) {
  Notes notes;
  size_t taken = 0;
  for (int i = 0; i < 40 && taken == 0; ++i) {
    notes.compactions.wrote(InodeId{5}, Compactions::kSmallExtents, false);
    notes.pass(1s);
    taken = notes.take().size();
  }
  EXPECT_EQ(taken, 1u);
}

TEST(Compactions, GoToWhoseTheyAreAlone) {
  Notes notes;
  notes.compactions.wrote(InodeId{5}, 0, true);
  notes.compactions.wrote(InodeId{6}, 0, true);
  notes.pass(Compactions::kQuiet);
  const auto sixth = [](InodeId inode) { return inode == InodeId{6}; };
  EXPECT_EQ(notes.compactions.take(sixth, 10), std::vector{InodeId{6}});
  EXPECT_TRUE(notes.compactions.take(sixth, 10).empty());
  EXPECT_EQ(notes.take(), std::vector{InodeId{5}});
}

TEST(Compactions, ComeInPages) {
  Notes notes;
  for (uint64_t i = 1; i <= 25; ++i)
    notes.compactions.wrote(InodeId{i}, 0, true);
  notes.pass(Compactions::kQuiet);
  std::set<InodeId> all;
  for (const size_t page : {10, 10, 5, 0}) {
    const std::vector<InodeId> taken = notes.take();
    EXPECT_EQ(taken.size(), page);
    all.insert(taken.begin(), taken.end());
  }
  EXPECT_EQ(all.size(), 25u);
}

TEST(Compactions, ForgetWhatIsNotWorthTheWorkBeforeTheyForgetAnythingElse) {
  Notes notes;
  notes.compactions.wrote(InodeId{1}, 0, true);
  for (uint64_t i = 2; i <= Compactions::kMaxNoted + 10; ++i)
    notes.compactions.wrote(InodeId{i}, 1, false);
  notes.pass(Compactions::kQuiet);
  EXPECT_EQ(notes.take(), std::vector{InodeId{1}});
}

TEST(Compactions, FindFilesThatNobodyToldOf) {
  NamespaceRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/whole", 3, false, 3));
  KINTSUGI_ASSERT_OK(rig.put("/wasteful", 3, false, 3));
  const InodeId wasteful{rig.stat("/wasteful")->inode()};
  KINTSUGI_ASSERT_OK(rig.apply([&](Transaction& t) -> Status {
    scan_extents(t.store(), wasteful, 0, [&](const proto::Extent& extent) {
      auto stripe = *load_stripe(t.store(), StripeId{extent.stripe_id()});
      stripe.set_length(100);
      stripe.set_live_bytes(50);
      t.put_message(keys::stripe(StripeId{extent.stripe_id()}), stripe);
      return false;
    });
    return {};
  }));
  Notes notes;
  while (notes.compactions.scan_step(Reader(*rig.store), false)) {
  }
  notes.pass(Compactions::kQuiet);
  EXPECT_EQ(notes.take(), std::vector{wasteful});
}

}  // namespace
}  // namespace kintsugi::metaserver
