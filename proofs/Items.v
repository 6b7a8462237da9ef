(* Which rows go out against a reader who knows some of a person's items (`against`, with `drop`). An item is a window in
   which a person has rows, or a row by its window and what is published of it: here, the people of the cohort who have it.
   The rule tries an item with so many others as the reader may know, and lets it out only where nobody or enough people
   have all of them. Then whoever knows up to d windows and m rows of somebody is left with `least` people or more. *)
From mathcomp Require Import all_ssreflect all_fingroup.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Items.
Variables (people : finType) (least d m : nat).
Implicit Types (item out : {set people}) (some windows rows : seq {set people}).

(* Nobody, or enough. *)
Definition enough item := (item == set0) || (least <= #|item|).

(* Who has all of some items. *)
Definition have_all some := \bigcap_(item <- some) item.

(* Up to so many of the items that are out; which of them are the same does not matter. *)
Definition known (out_items : seq {set people}) n some := (size some <= n) && all (fun item => item \in out_items) some.

(* With whatever else the reader may know: a windows and b rows. *)
Definition fits a b windows rows item := forall w r, known windows a w -> known rows b r ->
  enough (item :&: (have_all w :&: have_all r)).

(* What shall hold of all that is out. *)
Definition safe windows rows := fits d m windows rows setT.

(* The rule may refuse more than it must: an item is tried as a row, where rows are known, and with what it makes of its
   window, where windows are. *)
Definition sound (goes : seq {set people} -> seq {set people} -> {set people} -> {set people} -> bool) :=
  forall windows rows out item, goes windows rows out item ->
    (0 < m -> fits d m.-1 windows rows item) /\ (0 < d -> fits d.-1 m windows rows (out :|: item)).

Variable goes : seq {set people} -> seq {set people} -> {set people} -> {set people} -> bool.

(* A window, item by item: the rows that are out, and who of the window is. *)
Definition one windows (stands : seq {set people} * {set people}) item :=
  if goes windows stands.1 stands.2 item
  then ((if 0 < m then item :: stands.1 else stands.1), stands.2 :|: item) else stands.

Definition window (stands : seq {set people} * seq {set people}) items :=
  let: (rows, out) := foldl (one stands.1) (stands.2, set0) items in (out :: stands.1, rows).

Lemma have_all_cons item some : have_all (item :: some) = item :&: have_all some.
Proof. by rewrite /have_all big_cons. Qed.

(* Of known items that may be a new one, the new one and the others; it counts once. *)
Lemma known_cons out_items item n some : known (item :: out_items) n some ->
  known out_items n some \/
  exists2 others, 0 < n /\ known out_items n.-1 others & have_all some = item :&: have_all others.
Proof.
case/andP=> short all_in; case new: (item \in some); last first.
  left; rewrite /known short /=; apply/allP=> each each_in.
  move: (allP all_in each each_in); rewrite /= inE => /orP[/eqP same|//].
  by rewrite -same each_in in new.
right; exists (filter (predC1 item) some).
  split; first by apply: leq_trans short; case: (some) new.
  rewrite /known; apply/andP; split.
    have less : size (filter (predC1 item) some) < size some.
      rewrite size_filter -(count_predC (predC1 item) some) -[X in X < _]addn0 ltn_add2l -has_count.
      by apply/hasP; exists item => //=; rewrite eqxx.
    by case: (n) short => [|n'] short; [rewrite leqn0 in short; rewrite (eqP short) in less | apply: leq_trans less short].
  apply/allP=> each; rewrite mem_filter /= => /andP[other each_in].
  by move: (allP all_in each each_in); rewrite /= inE (negPf other).
rewrite /have_all; elim: (some) new => [//|first rest IH]; rewrite inE big_cons /=.
case: (eqVneq first item) => [->|other] /=.
  move=> _; case again: (item \in rest); first by rewrite (IH again) setIA setIid.
  congr (_ :&: _); rewrite (_ : filter _ rest = rest) //.
  by apply/all_filterP/allP=> each each_in /=; apply: contraTneq each_in => ->; rewrite again.
by rewrite big_cons => again; rewrite (IH again) setICA.
Qed.

Lemma known_more out_items n n' some : n <= n' -> known out_items n some -> known out_items n' some.
Proof. by move=> le /andP[short all_in]; rewrite /known (leq_trans short le) all_in. Qed.

(* While a window goes out: what is out is safe, also with the window as it is so far. *)
Definition safe_so_far windows rows out := safe windows rows /\ (0 < d -> fits d.-1 m windows rows out).

Lemma one_safe windows stands item : sound goes -> safe_so_far windows stands.1 stands.2 ->
  safe_so_far windows (one windows stands item).1 (one windows stands item).2.
Proof.
move=> right [so_far with_window]; rewrite /one; case goes_out: (goes _ _ _ _) => //=.
have [as_row as_window] := right _ _ _ _ goes_out; case: ifP => rows_known; last first.
  by split=> // windows_known; apply: as_window.
split=> [w r w_known /known_cons[r_known|[others [_ o_known] ->]]|windows_known w r w_known].
- exact: so_far.
- by rewrite setTI setICA; apply: as_row.
case/known_cons=> [r_known|[others [_ o_known] ->]]; first exact: as_window.
rewrite [have_all w :&: _]setICA setIA [_ :&: item]setIC setKU.
by apply: as_row => //; apply: known_more w_known; apply: leq_pred.
Qed.

Lemma window_done windows rows out : safe_so_far windows rows out -> safe (out :: windows) rows.
Proof.
case=> so_far with_window w r /known_cons[w_known r_known|[others [windows_known o_known] ->] r_known]; first exact: so_far.
by rewrite setTI -setIA; apply: with_window.
Qed.

Lemma window_safe stands items : sound goes -> safe stands.1 stands.2 ->
  safe (window stands items).1 (window stands items).2.
Proof.
move=> right before; rewrite /window.
have : safe_so_far stands.1 stands.2 set0.
  by split=> // _ w r _ _; rewrite set0I /enough eqxx.
have -> : stands.2 = (stands.2, set0 : {set people}).1 by [].
have -> : (set0 : {set people}) = (stands.2, set0 : {set people}).2 by [].
rewrite -surjective_pairing.
elim: items (stands.2, set0) => [[rows out] /=|item items IH state state_safe] /=; first exact: window_done.
by apply: IH; apply: one_safe.
Qed.

(* The rule, over all windows there ever are, late rows and parts of a window among them: of everything that is out,
   whoever knows up to d windows and m rows of somebody p, all of which p has, is left with enough people. *)
Theorem left_with_enough windows_of_items p w r : sound goes -> least <= #|people| ->
  let: (windows, rows) := foldl window ([::], [::]) windows_of_items in
  known windows d w -> known rows m r -> p \in have_all w :&: have_all r ->
  least <= #|have_all w :&: have_all r|.
Proof.
move=> right large.
have : safe [::] [::].
  move=> none none' /andP[_ all_none] /andP[_ all_none'].
  have empty some : all (fun item => item \in [::]) some -> some = [::] by case: some.
  by rewrite (empty _ all_none) (empty _ all_none') /have_all !big_nil !setTI /enough cardsT large orbT.
rewrite -[X in safe X _]/(([::], [::] : seq {set people}).1) -[X in safe _ X]/(([::] : seq {set people}, [::]).2).
elim: windows_of_items ([::], [::]) => [[windows rows] /= out_safe|items rest IH stands stands_safe] /=.
  move=> w_known r_known p_has; have := out_safe _ _ w_known r_known; rewrite setTI.
  by case/orP=> // /eqP nobody; rewrite nobody inE in p_has.
by apply: IH; apply: window_safe.
Qed.

(* What is tried follows from how many people items share. So whoever exchanges all that people of the cohort have is
   tried alike, and a rule that goes by what is tried decides the same: the clause keeps the swap condition. *)
Definition moved (s : {perm people}) item := [set s p | p in item].

Lemma moved_back s item : moved s (moved s^-1 item) = item.
Proof. by rewrite /moved -imset_comp (eq_imset _ (permKV s)) imset_id. Qed.

Lemma moved_on s item : moved s^-1 (moved s item) = item.
Proof. by have := moved_back s^-1 item; rewrite invgK. Qed.

Lemma moved_both s item other : moved s (item :&: other) = moved s item :&: moved s other.
Proof. by rewrite /moved imsetI // => x y _ _; apply: perm_inj. Qed.

Lemma moved_all s some : have_all (map (moved s) some) = moved s (have_all some).
Proof.
elim: some => [|item some IH]; last by rewrite /= !have_all_cons IH moved_both.
rewrite /have_all !big_nil; apply/esym/setP => p; rewrite !inE.
by apply/imsetP; exists (s^-1 p)%g; rewrite ?permKV.
Qed.

Lemma moved_enough s item : enough (moved s item) = enough item.
Proof. by rewrite /enough /moved imset_eq0 card_imset //; apply: perm_inj. Qed.

Lemma known_moved s out_items n some : known (map (moved s) out_items) n some ->
  exists2 before, known out_items n before & some = map (moved s) before.
Proof.
case/andP=> short all_in; exists (map (moved s^-1) some).
  rewrite /known size_map short; apply/allP=> each /mapP[item item_in ->].
  have /mapP[before before_in ->] := allP all_in item item_in.
  by rewrite moved_on.
by rewrite -map_comp map_id_in // => item _; apply: moved_back.
Qed.

Lemma fits_if_moved s a b windows rows item :
  fits a b windows rows item -> fits a b (map (moved s) windows) (map (moved s) rows) (moved s item).
Proof.
move=> tried w r /known_moved[w' w_known ->] /known_moved[r' r_known ->].
by rewrite !moved_all -!moved_both moved_enough; apply: tried.
Qed.

Theorem fits_moved s a b windows rows item :
  fits a b (map (moved s) windows) (map (moved s) rows) (moved s item) <-> fits a b windows rows item.
Proof.
split; last exact: fits_if_moved; move/(@fits_if_moved s^-1).
have back some : map (moved s^-1) (map (moved s) some) = some.
  by rewrite -map_comp map_id_in // => each _; apply: moved_on.
by rewrite !back moved_on.
Qed.

End Items.
Print Assumptions left_with_enough.
Print Assumptions fits_moved.
