// A client with very many open files tells of them again after a lost answer: none that is open is freed.
#include <gtest/gtest.h>

#include "client/lib/files/open_files.h"
#include "tests/expect_ok.h"
#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr uint64_t kHolds = 270'000;

TEST(SessionPages, AFileWithoutANameStaysOpenWhenTheClientHasVeryManyAndAnAnswerIsLost) {
  SimulatedCluster cluster({.seed = 1, .clients = 1});
  KINTSUGI_ASSERT_OK(cluster.start());
  auto files = cluster.client_program(0).client().open_files({.dirty_bytes = 4 << 20});
  client::Session& session = files->session();
  KINTSUGI_ASSERT_OK(cluster.run(session.tell({})));
  proto::MakeInodeRequest making;
  making.set_parent(kRoot);
  making.set_name("f");
  making.set_type(proto::Attributes::FILE);
  making.set_mode(0644);
  const auto made = cluster.run(files->names().make({}, std::move(making)));
  ASSERT_TRUE(made) << made.error();
  session.hold(made->inode());
  for (uint64_t i = 1; i < kHolds; ++i)
    session.hold((uint64_t{1} << 40) + i);
  KINTSUGI_ASSERT_OK(cluster.run(session.tell({})));
  proto::UnlinkRequest removal;
  removal.set_parent(kRoot);
  removal.set_name("f");
  const auto unlinked = cluster.run(files->names().unlink({}, std::move(removal)));
  ASSERT_TRUE(unlinked) << unlinked.error();
  session.hold(uint64_t{1} << 41);
  cluster.network().isolate(SimulatedCluster::client_name(0));
  EXPECT_FALSE(cluster.run(session.tell({})).ok());
  cluster.network().heal();
  cluster.run_for(1s);
  KINTSUGI_ASSERT_OK(cluster.run(session.tell({})));
  EXPECT_FALSE(session.has_untold());
  cluster.run_for(5s);
  const auto there = cluster.run(files->calls().get({}, made->inode()));
  EXPECT_TRUE(there) << there.error();
  for (uint64_t i = 1; i < kHolds; ++i)
    session.release((uint64_t{1} << 40) + i);
  session.release(uint64_t{1} << 41);
  session.release(made->inode());
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

}  // namespace
}  // namespace kintsugi::simulation
