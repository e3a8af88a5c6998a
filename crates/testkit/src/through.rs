//! Stores that stand before another one and have a say only in some of what is asked.

/// What can be asked of a store without changing anything, asked of another:
/// `reads_through!(self, reading of self.store => reading.await);`
#[macro_export]
macro_rules! reads_through {
    ($self:ident, $reading:ident of $store:expr => $how:expr) => {
        async fn inspect(
            &$self,
            id: ::windrow_core::ItemId,
        ) -> Result<Option<::windrow_core::ports::Inspected>, ::windrow_core::ports::StoreError> {
            let $reading = $store.inspect(id);
            $how
        }

        async fn explain(
            &$self,
            id: ::windrow_core::ItemId,
            now: ::windrow_core::Timestamp,
        ) -> Result<
            Option<::windrow_core::explain::Explanation>,
            ::windrow_core::ports::StoreError,
        > {
            let $reading = $store.explain(id, now);
            $how
        }

        async fn forecast(
            &$self,
            command: &::windrow_core::Command,
            now: ::windrow_core::Timestamp,
        ) -> Result<Result<(), ::windrow_core::Refusal>, ::windrow_core::ports::StoreError> {
            let $reading = $store.forecast(command, now);
            $how
        }

        async fn children(
            &$self,
            id: ::windrow_core::ItemId,
            from: u32,
            limit: usize,
        ) -> Result<Vec<::windrow_core::ItemId>, ::windrow_core::ports::StoreError> {
            let $reading = $store.children(id, from, limit);
            $how
        }

        async fn items(
            &$self,
            after: Option<::windrow_core::ItemId>,
            limit: usize,
        ) -> Result<Vec<::windrow_core::Item>, ::windrow_core::ports::StoreError> {
            let $reading = $store.items(after, limit);
            $how
        }

        async fn find(
            &$self,
            filter: &::windrow_core::find::Filter,
            after: Option<::windrow_core::ItemId>,
            limit: usize,
            enough: ::windrow_core::ports::Enough<'_>,
        ) -> Result<::windrow_core::find::Page, ::windrow_core::ports::StoreError> {
            let $reading = $store.find(filter, after, limit, enough);
            $how
        }

        async fn configured(
            &$self,
        ) -> Result<::windrow_core::find::Configured, ::windrow_core::ports::StoreError> {
            let $reading = $store.configured();
            $how
        }

        async fn counts(
            &$self,
        ) -> Result<Vec<::windrow_core::ports::Count>, ::windrow_core::ports::StoreError> {
            let $reading = $store.counts();
            $how
        }

        async fn leases(
            &$self,
        ) -> Result<Vec<::windrow_core::change::Lease>, ::windrow_core::ports::StoreError> {
            let $reading = $store.leases();
            $how
        }

        async fn held_by(
            &$self,
            leases: &[::windrow_core::LeaseId],
            limit: usize,
        ) -> Result<
            Vec<(::windrow_core::LeaseId, Vec<::windrow_core::ItemId>)>,
            ::windrow_core::ports::StoreError,
        > {
            let $reading = $store.held_by(leases, limit);
            $how
        }

        async fn notes(
            &$self,
            shelf: &str,
        ) -> Result<Vec<::windrow_core::note::Note>, ::windrow_core::ports::StoreError> {
            let $reading = $store.notes(shelf);
            $how
        }

        async fn resources(
            &$self,
        ) -> Result<
            Vec<(::std::sync::Arc<str>, ::windrow_core::resource::Resource)>,
            ::windrow_core::ports::StoreError,
        > {
            let $reading = $store.resources();
            $how
        }

        async fn next_due(
            &$self,
        ) -> Result<Option<::windrow_core::Timestamp>, ::windrow_core::ports::StoreError> {
            let $reading = $store.next_due();
            $how
        }

        async fn vitals(
            &$self,
            now: ::windrow_core::Timestamp,
        ) -> Result<::windrow_core::vitals::Vitals, ::windrow_core::ports::StoreError> {
            let $reading = $store.vitals(now);
            $how
        }

        async fn stages(
            &$self,
            now: ::windrow_core::Timestamp,
            most: u64,
        ) -> Result<Vec<::windrow_core::vitals::Standing>, ::windrow_core::ports::StoreError> {
            let $reading = $store.stages(now, most);
            $how
        }
    };
}
